//! Serves the simulated shop.
#[tokio::main]
async fn main() -> jobq::Result<()> {
    let shop = jobq_dashboard::demo::open().await?;
    let serving = jobq_dashboard::Standalone::new(shop.client()).start().await?;
    println!("{}", serving.url());
    serving
        .run_until(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await
}

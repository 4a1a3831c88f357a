use jobq::job;

#[job(retires = 3, delay = 30, queue = "a b", timeout = "0s")]
async fn send_welcome(email: &str, (x, y): (u8, u8)) {
    println!("{email}, {x}, {y}");
}

fn main() {
    let _ = SendWelcome { email: "ann@example.com".into() };
}

//! A process that is forked from one with a client, and uses it.
//!
//! Arguments: URL, namespace. It prints what the child is told.

use fork::{Fork, fork, waitpid};
use futures_executor::block_on;
use jobq::{BoxError, Client, job};

#[job]
async fn greet() -> Result<(), BoxError> {
    Ok(())
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let builder = Client::builder(&arguments[0]).namespace(&arguments[1]);
    let client = block_on(builder.connect()).expect("it connects");
    block_on(client.enqueue(Greet {}).into_future()).expect("it is accepted");
    match fork().expect("it can be forked") {
        Fork::Child => {
            let told = [
                block_on(client.enqueue(Greet {}).into_future()).map(|_| ()),
                block_on(client.enqueue_all([Greet {}]).into_future())
                    .map(|_| ())
                    .map_err(|report| report.refused()[0].1.clone()),
                block_on(client.counts("greet")).map(|_| ()),
                block_on(client.failed("greet").list(1)).map(|_| ()),
                block_on(Client::connect(&arguments[0])).map(|_| ()),
            ];
            for told in told {
                println!("{:?}", told.map_err(|error| error.to_string()));
            }
            block_on(client.close());
            println!("closed");
        }
        Fork::Parent(child) => {
            waitpid(child).expect("it ends");
            block_on(client.enqueue(Greet {}).into_future())
                .expect("it is accepted here as before");
            block_on(client.close());
        }
    }
}

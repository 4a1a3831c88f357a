//! The needs of a pool, before it runs.

use super::WorkerPool;
use crate::client::Doctor;
use crate::error::Result;
#[cfg(feature = "rabbitmq")]
use crate::rabbitmq::Topology;
use crate::worker::registry;

impl WorkerPool {
    /// Everything that the pool would declare on a RabbitMQ broker, whatever the engine of its
    /// client. It needs no broker. Each line of its display form is one exchange, queue or binding.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let topology = WorkerPool::new(&client).register::<Mail>().topology()?.to_string();
    /// assert!(topology.contains("queue jobq:mail@failed"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Settings with which the pool does not start on any engine; see [`spawn`](Self::spawn).
    #[cfg(feature = "rabbitmq")]
    pub fn topology(&self) -> Result<Topology> {
        let queues = self.check()?;
        Ok(Topology::from_queues(self.client.namespace(), &registry::specs(&queues)))
    }

    /// Looks for settings that weaken the guarantees of jobq, as
    /// [`Client::doctor`](crate::Client::doctor) does, for the queues of this pool. The pool need
    /// not run.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// println!("{}", WorkerPool::new(&client).register::<Mail>().doctor()?.await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Settings with which the pool does not start on any engine; see [`spawn`](Self::spawn).
    pub fn doctor(&self) -> Result<Doctor> {
        let queues = self.check()?;
        Ok(Doctor::new(self.client.clone(), registry::specs(&queues)))
    }
}

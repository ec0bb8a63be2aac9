//! A test with a cluster and a runtime of its own.

use std::error::Error;

use tokio::runtime::Builder;

use super::FakeHBase;

impl FakeHBase {
    /// Runs a test on a new cluster, in virtual time.
    ///
    /// It starts a tokio runtime of one thread, whose clock is paused. The test needs no attribute
    /// and no dependency on tokio, and may use `?` with any error. In an example of your
    /// documentation, two hidden lines are enough.
    ///
    /// # Panics
    ///
    /// Panics if the test returns an error, if a fault was left unused, if a request was not
    /// modelled, and inside of another runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "client")]
    /// hbase_fake::FakeHBase::run(async |hbase| {
    ///     hbase.create_table("orders", &["f"], &[]);
    ///     let orders = hbase.connect().await?.table("orders")?;
    ///     assert!(orders.get(hbase_client::Get::new("a")).await?.is_none());
    ///     Ok(())
    /// });
    /// ```
    #[track_caller]
    pub fn run(test: impl AsyncFnOnce(&Self) -> Result<(), Box<dyn Error>>) {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap_or_else(|error| panic!("can't start a runtime: {error}"));
        let ended = runtime.block_on(async { test(&Self::start()).await });
        if let Err(error) = ended {
            panic!("the test failed: {error}");
        }
    }
}

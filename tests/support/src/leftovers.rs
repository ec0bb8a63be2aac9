//! Counts the tasks and threads that some work leaves running.

use std::{fs, thread, time::Duration};

use tokio::{
    runtime::{Builder, Handle},
    task::JoinHandle,
};

use super::eventually;

/// Work on its own thread and runtime, whose threads have a distinct name. Threads that the work
/// starts without a name inherit it.
pub struct Leftovers {
    name: String,
    tasks: usize,
}

impl Leftovers {
    /// Runs work that can count the tasks and threads that it leaves.
    pub fn of(work: impl AsyncFnOnce(Self) + Send) {
        // Linux shows the first 15 bytes of it.
        let name = format!("left-{:08x}", fastrand::u32(..));
        thread::scope(|scope| {
            let working = thread::Builder::new().name(name.clone()).spawn_scoped(scope, || {
                let mut builder = Builder::new_current_thread();
                // Idle blocking threads exit soon.
                let builder = builder
                    .thread_name(&name)
                    .thread_keep_alive(Duration::from_millis(50));
                let runtime = builder.enable_all().build().unwrap();
                runtime.block_on(work(Self {
                    name: name.clone(),
                    tasks: 0,
                }));
            });
            working.unwrap().join().unwrap();
        });
    }

    /// Counts from now on: tasks that run now are not leftovers.
    pub fn begin(&mut self) {
        self.tasks = alive();
    }

    /// Returns the number of tasks in addition to those that ran at the beginning.
    fn tasks(&self) -> usize {
        alive().saturating_sub(self.tasks)
    }

    /// Waits until there are no more tasks than at the beginning, and no thread except the work's
    /// own.
    pub async fn none(&self) {
        eventually("nothing is left running", async || {
            (self.tasks() == 0 && self.threads() == 1).then_some(())
        })
        .await;
    }

    /// Aborts waiting tasks once a further task works on their behalf.
    pub async fn abandon<T>(&self, waiting: Vec<JoinHandle<T>>) {
        eventually("all wait", async || (self.tasks() > waiting.len()).then_some(())).await;
        for waiting in waiting {
            waiting.abort();
            assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        }
    }

    fn threads(&self) -> usize {
        let threads = fs::read_dir("/proc/self/task").unwrap();
        let names = threads.filter_map(|thread| {
            // A thread that has exited meanwhile has no name.
            fs::read_to_string(thread.unwrap().path().join("comm")).ok()
        });
        names.filter(|name| name.trim_end() == self.name).count()
    }
}

fn alive() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

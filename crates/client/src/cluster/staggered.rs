//! Queries of several servers of which one has to answer.

use std::{pin::pin, time::Duration};

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::sleep;

/// Queries servers in this order, `fan_out` at a time. If none of them answers for `patience`,
/// another one is queried as well: a server that accepts connections and never answers must not use
/// up the time of the others. The first answer decides, and all other queries are dropped.
///
/// # Errors
///
/// Returns the failures of all servers, in the order in which they failed.
pub(super) async fn first_answer<S, T, E, Q: Future<Output = Result<T, E>>>(
    servers: Vec<S>,
    mut fan_out: usize,
    patience: Duration,
    query: impl Fn(S) -> Q,
) -> Result<T, Vec<E>> {
    let mut waiting = servers.into_iter();
    let mut queried = pin!(FuturesUnordered::new());
    let mut failures = Vec::new();
    loop {
        while queried.len() < fan_out
            && let Some(server) = waiting.next()
        {
            queried.push(query(server));
        }
        tokio::select! {
            biased;
            answer = queried.next() => match answer {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(failure)) => failures.push(failure),
                None => return Err(failures),
            },
            () = sleep(patience), if waiting.len() > 0 => fan_out += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    /// A server that fails at once, never answers, or answers after some seconds.
    #[derive(Clone, Copy)]
    enum Server {
        Dead,
        Silent,
        AnswersAfter(u64),
    }
    use Server::{AnswersAfter, Dead, Silent};

    async fn query(server: Server) -> Result<u64, &'static str> {
        match server {
            Dead => Err("dead"),
            Silent => pending().await,
            AnswersAfter(seconds) => {
                sleep(Duration::from_secs(seconds)).await;
                Ok(seconds)
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dead_servers_cost_no_time_and_silent_ones_little() {
        for (servers, seconds) in [
            (vec![Dead, Dead, AnswersAfter(0)], 0),
            (vec![Silent, Dead, Silent, AnswersAfter(0)], 2),
            (vec![AnswersAfter(2), AnswersAfter(5)], 2),
            (vec![AnswersAfter(5), AnswersAfter(0)], 1),
        ] {
            let began = Instant::now();
            first_answer(servers, 1, PATIENCE, query).await.unwrap();
            assert_eq!(began.elapsed(), Duration::from_secs(seconds));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_failures_are_returned() {
        let failures = first_answer(vec![Dead; 3], 2, PATIENCE, query).await;
        assert_eq!(failures.unwrap_err(), ["dead"; 3]);
        let none = first_answer(Vec::new(), 2, PATIENCE, query).await;
        assert_eq!(none.unwrap_err(), [""; 0]);
    }
}

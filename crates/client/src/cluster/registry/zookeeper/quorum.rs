//! Diagnosis of a ZooKeeper quorum that opens no session.

use std::time::Duration;

use futures::future::join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::access::Access;
use crate::{
    config::HostPort,
    rpc::{answers_in_tls, no_connection},
};

/// The time limit of each step of a check.
const STEP: Duration = Duration::from_millis(700);

/// Checks every host once, and describes each result to a client with this access.
pub(super) async fn look(hosts: impl Iterator<Item = &HostPort>, access: &Access) -> Vec<String> {
    join_all(hosts.map(|host| look_at(host, access))).await
}

async fn look_at(host: &HostPort, access: &Access) -> String {
    let has_tls = access.has_tls();
    let mut stream = match timeout(STEP, access.connect(host)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return no_connection(&error),
        Err(_) => return "does not take the connection".to_owned(),
    };
    // ZooKeeper answers this word to every client, if only to say that it is not allowed.
    let asked = timeout(STEP, async {
        stream.write_all(b"srvr").await?;
        let mut answer = [0; 16];
        let read = stream.read(&mut answer).await?;
        Ok::<_, std::io::Error>(answer[..read].to_vec())
    });
    let seen = match asked.await {
        Ok(Ok(answer)) if answer.starts_with(b"Zookeeper") || answer.starts_with(b"srvr is not") => {
            return if has_tls {
                format!("is a ZooKeeper without TLS on this port: {NO_TLS}")
            } else {
                "is a ZooKeeper, but opens no session".to_owned()
            };
        }
        Ok(Ok(answer)) if answer.starts_with(b"This ZooKeeper") => {
            return "is a ZooKeeper that does not serve: its quorum has no majority".to_owned();
        }
        Ok(Ok(answer)) if answer.is_empty() => "hangs up: it is no ZooKeeper".to_owned(),
        Ok(Ok(_)) => return "answers, but not as ZooKeeper does".to_owned(),
        Ok(Err(error)) => format!("hangs up ({error})"),
        Err(_) => "takes the connection and says nothing".to_owned(),
    };
    let greeting = async {
        let mut stream = access.connect(host).await?;
        answers_in_tls(&mut stream).await
    };
    match timeout(STEP, greeting).await {
        Ok(Ok(true)) if has_tls => "speaks TLS, but opens no session".to_owned(),
        Ok(Ok(true)) => format!("speaks TLS only: {ENABLE_TLS}"),
        _ => seen,
    }
}

const NO_TLS: &str = "use its secureClientPort, or set hbase.zookeeper.property.client.secure to false \
                      (Config::with_zookeeper_tls)";
const ENABLE_TLS: &str = "set hbase.zookeeper.property.client.secure to true, with the feature tls \
                          (Config::with_zookeeper_tls)";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use tokio::net::TcpListener;

    use super::*;
    use crate::{
        config::Config,
        rpc::{RpcClient, TcpConnector},
    };

    #[rstest]
    #[case(Some(&b"Zookeeper version: 3.8.4"[..]), "is a ZooKeeper")]
    #[case(
        Some(&b"This ZooKeeper instance is not currently serving requests"[..]),
        "no majority"
    )]
    #[case(Some(&b"HTTP/1.0 400 Bad Request"[..]), "not as ZooKeeper does")]
    #[case(Some(&b""[..]), "no ZooKeeper")]
    #[case(None, "says nothing")]
    #[tokio::test]
    async fn tells_what_is_behind_an_address(#[case] answer: Option<&'static [u8]>, #[case] seen: &str) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            match answer {
                Some(answer) => {
                    stream.read_exact(&mut [0; 4]).await.unwrap();
                    stream.write_all(answer).await.unwrap();
                }
                None => std::future::pending().await,
            }
        });
        let host = HostPort {
            host: "127.0.0.1".into(),
            port,
        };
        let text = look_at(&host, &access()).await;
        server.abort();
        assert!(text.contains(seen), "{text}");
    }

    #[tokio::test]
    async fn closed_port_refuses_the_connection() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr();
        let host = HostPort::parse(&free.unwrap().to_string(), 1).unwrap();
        assert_eq!(look_at(&host, &access()).await, "refused the connection");
    }

    fn access() -> Access {
        let config = Config::from_uri("hbase+zk://zk").unwrap();
        Access::new(&config, &RpcClient::new(&config, Arc::new(TcpConnector)))
    }
}

//! Starts HBase in a container, runs a command against it, and removes the container: `in-container
//! IMAGE LOG COMMAND...`
//!
//! The command finds the cluster in `HBASE_TXN_CONNECT`, and in `HBASE_TXN_TEST_VERSIONS` as the
//! smoke suite wants it. The exit status says whether the command did well. What HBase writes goes
//! to the file LOG.

use std::{
    env,
    error::Error,
    fs::File,
    io::Write,
    net::{Ipv4Addr, TcpListener},
    process::ExitCode,
    time::Duration,
};

use testcontainers::{
    GenericImage, ImageExt,
    core::{WaitFor, logs::LogFrame},
    runners::AsyncRunner,
};
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
};

/// The release in the image.
const RELEASE: &str = "2.6.4";
/// What a master logs when it serves.
const SERVES: &str = "Master has completed initialization";
/// How long HBase may take to serve, on a machine that is busy.
const BOOT_TAKES: Duration = Duration::from_secs(180);

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(image), Some(log), Some(program)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: in-container IMAGE LOG COMMAND...".into());
    };
    let log = File::create(log)?;
    let (name, tag) = image.split_once(':').ok_or("IMAGE is NAME:TAG")?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    let [zookeeper, master, region_server] = free_ports()?;
    let ports = [
        ("hbase.zookeeper.property.clientPort", zookeeper),
        ("hbase.master.port", master),
        ("hbase.regionserver.port", region_server),
    ];
    let settings = ports
        .iter()
        .flat_map(|(key, port)| ["-D".to_owned(), format!("{key}={port}")]);
    let started = GenericImage::new(name, tag)
        .with_wait_for(WaitFor::message_on_either_std(SERVES))
        // HBase tells clients the address that it knows itself by, so it must be one that holds
        // outside, too.
        .with_network("host")
        .with_cmd(["standalone".to_owned()].into_iter().chain(settings))
        .with_startup_timeout(BOOT_TAKES)
        .with_log_consumer(move |frame: &LogFrame| {
            // A log that can't be written is no reason to fail.
            let _ = (&log).write_all(frame.bytes());
        })
        .start();
    // Dropped or removed, the container goes in either case.
    let container = tokio::select! {
        container = started => container?,
        _ = terminate.recv() => return Ok(ExitCode::FAILURE),
        _ = interrupt.recv() => return Ok(ExitCode::FAILURE),
    };
    let mut command = Command::new(program)
        .args(arguments)
        .env(
            "HBASE_TXN_CONNECT",
            format!("hbase+zk://127.0.0.1:{zookeeper}/hbase"),
        )
        .env(
            "HBASE_TXN_TEST_VERSIONS",
            format!("{RELEASE}:{zookeeper}:{master}:{region_server}"),
        )
        .kill_on_drop(true)
        .spawn()?;
    let status = tokio::select! {
        status = command.wait() => Some(status?),
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    container.rm().await?;
    Ok(match status {
        Some(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Ports that nobody listens on, while all of them are held: so no two are the same.
fn free_ports<const N: usize>() -> std::io::Result<[u16; N]> {
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}

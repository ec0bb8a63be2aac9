//! Clocks that differ too much for Kerberos. The library of Kerberos does not report the time of the
//! KDC, and adopts it, so a difference appears only when it is refused.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use super::{keytab_of, on_kerberos, refusals::command, support::says};

/// Returns an element of DER with less than 128 bytes.
fn der(tag: u8, contents: &[u8]) -> Vec<u8> {
    [&[tag, u8::try_from(contents.len()).unwrap()], contents].concat()
}

/// Returns the `KRB-ERROR` (RFC 4120, 5.9.1) of a KDC whose clock differs too much.
fn skew(realm: &str) -> Vec<u8> {
    let int = |value: u8| der(0x02, &[value]);
    let text = |value: &str| der(0x1b, value.as_bytes());
    let names = der(0x30, &[text("krbtgt"), text(realm)].concat());
    let server = der(0x30, &[der(0xa0, &int(2)), der(0xa1, &names)].concat());
    let fields = [
        der(0xa0, &int(5)),
        der(0xa1, &int(30)),
        der(0xa4, &der(0x18, b"20200101000000Z")),
        der(0xa5, &int(0)),
        der(0xa6, &int(37)),
        der(0xa9, &text(realm)),
        der(0xaa, &server),
    ];
    der(0x7e, &der(0x30, &fields.concat()))
}

/// Answers requests until the client hangs up.
fn answer(mut client: TcpStream, error: &[u8]) -> std::io::Result<()> {
    loop {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        client.read_exact(&mut request)?;
        let length = (error.len() as u32).to_be_bytes();
        client.write_all(&[&length, error].concat())?;
    }
}

/// Returns the port of a KDC whose clock differs too much from that of every client.
fn kdc(error: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // The end of the client ends it.
            let _ = answer(client, &error);
        }
    });
    port
}

#[tokio::test]
async fn clock_that_differs_from_the_kdc_is_named() {
    on_kerberos(async |cluster| {
        let (keytab, client) = keytab_of(&cluster.config());
        let (_, realm) = client.rsplit_once('@').unwrap();
        let conf = fs::read_to_string(&cluster.status.environment["KRB5_CONFIG"]).unwrap();
        let (own, other) = (cluster.status.ports["kdc"], kdc(skew(realm)));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("krb5.conf");
        fs::write(&file, conf.replace(&format!(":{own}"), &format!(":{other}"))).unwrap();
        let variables = [
            ("KRB5_CONFIG", file.to_str().unwrap()),
            ("KRB5CCNAME", "FILE:/no/such/cache"),
            ("KRB5_CLIENT_KTNAME", &keytab),
        ];
        let (is_healthy, text) = command(cluster, &["doctor"], &variables);
        assert!(!is_healthy, "{text}");
        says(&text, &["Clock skew too great", "by NTP"]);
    })
    .await;
}

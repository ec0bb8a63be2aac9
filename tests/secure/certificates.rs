//! Certificates of servers that Java's client and this one accept or refuse. The test needs no cluster.

use std::path::{Path, PathBuf};

use futures::future::join_all;
use hbase_txn::{ClientErrorKind, client::TlsOptions};
use tempfile::TempDir;

use super::{
    support::java::tls_servers,
    tls::{PASSWORD, run},
    *,
};

/// Whether a client accepts a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Refused,
}
use Verdict::{Accepted, Refused};

const AUTHORITY: &str = "basicConstraints=critical,CA:TRUE";
const SERVER: &str = "subjectAltName=DNS:localhost";

/// A certificate: the name of its issuer, if that is not itself, its extensions, if it is of version 3, and
/// the days that it is valid.
#[derive(Clone, Copy)]
struct Issued {
    name: &'static str,
    issuer: Option<&'static str>,
    extensions: &'static [&'static str],
    days: &'static str,
}

const fn own(name: &'static str, extensions: &'static [&'static str]) -> Issued {
    Issued {
        name,
        issuer: None,
        extensions,
        days: "30",
    }
}

const fn by(issuer: &'static str, name: &'static str, extensions: &'static [&'static str]) -> Issued {
    Issued {
        name,
        issuer: Some(issuer),
        extensions,
        days: "30",
    }
}

const fn expired(issued: Issued) -> Issued {
    Issued { days: "-1", ..issued }
}

/// The certificates, each after its issuer.
const CERTIFICATES: &[Issued] = &[
    own("root", &[AUTHORITY, "keyUsage=critical,keyCertSign"]),
    own("root-without-usage", &[AUTHORITY]),
    own("root-v1", &[]),
    expired(own("root-expired", &[AUTHORITY])),
    own(
        "root-signs-no-certificates",
        &[AUTHORITY, "keyUsage=critical,digitalSignature"],
    ),
    own("no-authority", &["basicConstraints=critical,CA:FALSE"]),
    own("no-constraints", &[SERVER]),
    own("self-authority", &[AUTHORITY, SERVER]),
    by("root", "middle", &[AUTHORITY, "keyUsage=critical,keyCertSign"]),
    by(
        "root",
        "middle-no-authority",
        &["basicConstraints=critical,CA:FALSE"],
    ),
    by(
        "root",
        "middle-signs-no-certificates",
        &[AUTHORITY, "keyUsage=critical,digitalSignature"],
    ),
    by("root", "leaf", &[SERVER]),
    by(
        "root",
        "leaf-signs",
        &[SERVER, "keyUsage=critical,digitalSignature"],
    ),
    by(
        "root",
        "leaf-encrypts-keys",
        &[SERVER, "keyUsage=critical,keyEncipherment"],
    ),
    by(
        "root",
        "leaf-of-servers",
        &[SERVER, "extendedKeyUsage=serverAuth"],
    ),
    by(
        "root",
        "leaf-of-clients",
        &[SERVER, "extendedKeyUsage=clientAuth"],
    ),
    by("root", "leaf-authority", &[SERVER, AUTHORITY]),
    expired(by("root", "leaf-expired", &[SERVER])),
    by("root-without-usage", "of-root-without-usage", &[SERVER]),
    by("root-v1", "of-root-v1", &[SERVER]),
    by("root-expired", "of-root-expired", &[SERVER]),
    by(
        "root-signs-no-certificates",
        "of-root-signs-no-certificates",
        &[SERVER],
    ),
    by("no-authority", "of-no-authority", &[SERVER]),
    by("no-constraints", "of-no-constraints", &[SERVER]),
    by("middle", "of-middle", &[SERVER]),
    by("middle-no-authority", "of-middle-no-authority", &[SERVER]),
    by(
        "middle-signs-no-certificates",
        "of-middle-signs-no-certificates",
        &[SERVER],
    ),
];

/// The chain of a server, the certificate that clients trust, and the verdicts of Java's client and this one.
type Case = (&'static [&'static str], &'static str, Verdict, Verdict);

/// Both clients agree.
const fn same(chain: &'static [&'static str], trusted: &'static str, verdict: Verdict) -> Case {
    (chain, trusted, verdict, verdict)
}

const CASES: &[Case] = &[
    // Java checks neither the validity nor the key usage of a certificate that is in the trust store itself.
    (&["leaf-expired"], "leaf-expired", Accepted, Refused),
    (&["leaf-encrypts-keys"], "leaf-encrypts-keys", Accepted, Refused),
    // Java lets the key of an authority be that of a server. Here the trust store must have this certificate.
    (&["leaf-authority"], "root", Accepted, Refused),
    same(&["leaf-authority"], "leaf-authority", Accepted),
    same(&["leaf-of-clients"], "leaf-of-clients", Accepted),
    same(&["of-root-expired"], "root-expired", Accepted),
    same(
        &["of-root-signs-no-certificates"],
        "root-signs-no-certificates",
        Refused,
    ),
    same(&["leaf"], "root", Accepted),
    same(&["leaf"], "leaf", Accepted),
    same(&["leaf"], "leaf-signs", Refused),
    same(&["leaf"], "root-without-usage", Refused),
    same(&["of-root-without-usage"], "root-without-usage", Accepted),
    same(&["leaf-signs"], "root", Accepted),
    same(&["leaf-of-servers"], "root", Accepted),
    same(&["leaf-of-clients"], "root", Refused),
    same(&["leaf-encrypts-keys"], "root", Refused),
    same(&["leaf-expired"], "root", Refused),
    same(&["of-root-v1"], "root-v1", Accepted),
    same(&["no-constraints"], "no-constraints", Accepted),
    same(&["self-authority"], "self-authority", Accepted),
    same(&["of-no-constraints"], "no-constraints", Refused),
    same(&["of-no-authority"], "no-authority", Refused),
    same(&["of-middle", "middle"], "root", Accepted),
    same(&["of-middle", "middle"], "middle", Accepted),
    same(&["of-middle"], "root", Refused),
    same(
        &["of-middle-no-authority", "middle-no-authority"],
        "root",
        Refused,
    ),
    same(
        &["of-middle-no-authority", "middle-no-authority"],
        "middle-no-authority",
        Refused,
    ),
    same(
        &["of-middle-signs-no-certificates", "middle-signs-no-certificates"],
        "root",
        Refused,
    ),
];

/// Writes the key of a certificate and the certificate itself, as `NAME.key` and `NAME.pem`.
async fn issue(folder: &Path, number: usize, issued: &Issued) {
    let Issued {
        name,
        issuer,
        extensions,
        days,
    } = *issued;
    let file = |ending: &str| format!("{name}.{ending}");
    let (key, request, certificate) = (file("key"), file("csr"), file("pem"));
    let subject = format!("/CN={name}");
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let new = [
        "req", "-new", "-subj", &subject, "-keyout", &key, "-out", &request,
    ];
    run(folder, "openssl", &[&new[..], &curve].concat()).await;
    let number = (number + 1).to_string();
    let sign = [
        "x509",
        "-req",
        "-in",
        &request,
        "-days",
        days,
        "-set_serial",
        &number,
        "-out",
        &certificate,
    ];
    let [issuer_key, issuer_certificate] =
        ["key", "pem"].map(|end| format!("{}.{end}", issuer.unwrap_or(name)));
    let by = match issuer {
        Some(_) => vec!["-CA", &issuer_certificate, "-CAkey", &issuer_key],
        None => vec!["-signkey", &key],
    };
    let listed = file("ext");
    fs::write(folder.join(&listed), extensions.join("\n")).unwrap();
    // Without extensions, openssl writes version 1.
    let extensions = if extensions.is_empty() {
        vec![]
    } else {
        vec!["-extfile", &listed]
    };
    run(folder, "openssl", &[&sign[..], &by, &extensions].concat()).await;
}

/// Writes the folder of a case: the key of the server with its chain, and what clients trust.
async fn prepare(certificates: &Path, folder: &Path, (chain, trusted, ..): Case) -> PathBuf {
    let path = |name: &str, end: &str| certificates.join(format!("{name}.{end}"));
    let text = |name: &str| fs::read_to_string(path(name, "pem")).unwrap();
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("trust.pem"), text(trusted)).unwrap();
    let chain_of = |names: &[&str]| names.iter().map(|name| text(name)).collect::<String>();
    fs::write(folder.join("chain.pem"), chain_of(chain)).unwrap();
    let key = path(chain[0], "key");
    let password = format!("pass:{PASSWORD}");
    let export = [
        "pkcs12",
        "-export",
        "-in",
        "chain.pem",
        "-inkey",
        key.to_str().unwrap(),
    ];
    let to = ["-out", "server.p12", "-passout", &password];
    run(folder, "openssl", &[&export[..], &to].concat()).await;
    folder.to_owned()
}

/// Returns whether this client accepts the certificate of a server, which is no server of HBase.
async fn our_verdict(folder: &Path, port: u16) -> (Verdict, String) {
    let config = Config::from_uri(&format!("hbase+rpc://localhost:{port}")).unwrap();
    let tls = TlsOptions::new(folder.join("trust.pem"), "");
    let error = connect(config.with_tls(Some(tls))).await.unwrap_err();
    let verdict = match error.kind() {
        ClientErrorKind::AuthenticationFailed => Refused,
        ClientErrorKind::Protocol => Accepted,
        _ => panic!("{error}"),
    };
    (verdict, error.to_string())
}

#[tokio::test]
async fn certificates_are_accepted_and_refused_as_by_java() {
    let folder = TempDir::new().unwrap();
    let certificates = folder.path().join("certificates");
    fs::create_dir(&certificates).unwrap();
    for (number, issued) in CERTIFICATES.iter().enumerate() {
        issue(&certificates, number, issued).await;
    }
    let prepared = CASES.iter().enumerate();
    let prepared = prepared.map(|(number, case)| {
        let folder = folder.path().join(number.to_string());
        let certificates = &certificates;
        async move { prepare(certificates, &folder, *case).await }
    });
    let folders = join_all(prepared).await;
    let (_servers, by_java) = tls_servers(&folders).await;
    let mut wrong = Vec::new();
    for ((case, folder), java) in CASES.iter().zip(&folders).zip(by_java) {
        let (chain, trusted, expected_of_java, expected) = *case;
        let javas = if java.refusal.is_none() { Accepted } else { Refused };
        let (ours, error) = our_verdict(folder, java.port).await;
        println!("{chain:?} by {trusted}: Java {javas:?}, ours {ours:?}");
        if (javas, ours) != (expected_of_java, expected) {
            wrong.push(format!(
                "{chain:?} by {trusted}: Java {javas:?}: {:?}; ours {ours:?}: {error}",
                java.refusal
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

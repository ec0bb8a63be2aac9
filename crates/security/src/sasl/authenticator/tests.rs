use bytes::BufMut;
use tokio::io::{DuplexStream, duplex};

use super::{
    super::{mechanism::SecurityLayer, scripted::Numbered},
    *,
};
use crate::error::ErrorKind;

fn options() -> AuthenticationOptions {
    AuthenticationOptions {
        kerberos: Some(Kerberos::new("hbase/_HOST@R")),
        ..AuthenticationOptions::default()
    }
}

fn with_aes() -> AuthenticationOptions {
    AuthenticationOptions {
        aes: true,
        ..options()
    }
}

fn with_fallback(effective_user: Option<&str>) -> AuthenticationOptions {
    AuthenticationOptions {
        fallback_to_simple: true,
        effective_user: effective_user.map(str::to_owned),
        ..options()
    }
}

fn authenticator(options: &AuthenticationOptions) -> Authenticator {
    Authenticator::new(options, Duration::from_secs(5), 1 << 20).unwrap()
}

/// The header of a client whose user is bob.
fn header(introduction: Introduction<'_>) -> Bytes {
    let (user, cipher) = match introduction {
        Introduction::Simple => (Some("bob"), None),
        Introduction::Authenticated {
            effective_user,
            cipher,
        } => (effective_user, cipher),
    };
    let header = pb::ConnectionHeader {
        user_info: user.map(|user| pb::UserInformation {
            effective_user: user.to_owned(),
            real_user: None,
        }),
        rpc_crypto_cipher_transformation: cipher.map(str::to_owned),
        ..pb::ConnectionHeader::default()
    };
    let header = header.encode_to_vec();
    [&(header.len() as u32).to_be_bytes()[..], &header]
        .concat()
        .into()
}

fn private() -> Accepted {
    Accepted::Authenticated(Some(Box::<Numbered>::default()))
}

/// Begins a connection with a server that runs as given.
async fn begin(
    options: AuthenticationOptions,
    accepted: Accepted,
    server: impl AsyncFnOnce(SaslStream<DuplexStream>),
) -> Result<Opened<SaslStream<DuplexStream>>, HandshakeError> {
    let (ours, theirs) = duplex(1 << 16);
    let layer: Box<dyn SecurityLayer> = Box::<Numbered>::default();
    let theirs = SaslStream::new(theirs, Some(layer), 1 << 20, |_| false);
    let authenticator = authenticator(&options);
    let (opened, ()) = tokio::join!(
        authenticator.protect(ours, accepted, header, |_| false),
        server(theirs)
    );
    opened
}

fn refused<S: fmt::Debug>(opened: Result<S, HandshakeError>) -> AuthenticationError {
    match opened.unwrap_err() {
        HandshakeError::Unauthenticated(error) => error,
        error => panic!("{error:?}"),
    }
}

async fn silent(_: SaslStream<DuplexStream>) {}

/// Reads a connection header.
async fn read_header(stream: &mut SaslStream<DuplexStream>) -> pb::ConnectionHeader {
    let len = stream.read_u32().await.unwrap();
    let mut header = vec![0; len as usize];
    stream.read_exact(&mut header).await.unwrap();
    pb::ConnectionHeader::decode(&header[..]).unwrap()
}

async fn answer(stream: &mut SaslStream<DuplexStream>, keys: &[u8]) {
    let mut bytes = Vec::new();
    bytes.put_i32(keys.len() as i32);
    bytes.put_slice(keys);
    // A client that refuses them closes the stream.
    let _ = stream.write_all(&bytes).await;
    let _ = stream.flush().await;
}

fn keys() -> pb::CryptoCipherMeta {
    let bytes = |byte| Some(vec![byte; 16].into());
    pb::CryptoCipherMeta {
        transformation: CIPHER.into(),
        in_key: bytes(1),
        in_iv: bytes(2),
        out_key: bytes(3),
        out_iv: bytes(4),
    }
}

fn sent_header(greeting: &Bytes) -> pb::ConnectionHeader {
    pb::ConnectionHeader::decode(&greeting[4..]).unwrap()
}

#[tokio::test]
async fn authenticated_header_has_only_the_user_to_impersonate() {
    for (user, expected) in [(None, None), (Some("carol"), Some("carol"))] {
        let accepted = Accepted::Authenticated(None);
        let Opened { greeting, .. } = begin(with_fallback(user), accepted, silent).await.unwrap();
        let sent = sent_header(&greeting).user_info.map(|info| info.effective_user);
        assert_eq!(sent.as_deref(), expected);
    }
}

#[tokio::test]
async fn server_without_security_is_used_only_if_that_is_allowed() {
    let error = refused(begin(options(), Accepted::Simple, silent).await);
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
    assert!(
        error.hint().contains("fallback-to-simple-auth-allowed"),
        "{error}"
    );
    let Opened { greeting, .. } = begin(with_fallback(None), Accepted::Simple, silent)
        .await
        .unwrap();
    let user = sent_header(&greeting).user_info.unwrap();
    assert_eq!(user.effective_user, "bob");
}

#[tokio::test]
async fn user_to_impersonate_is_not_lost_on_a_server_without_security() {
    let error = refused(begin(with_fallback(Some("carol")), Accepted::Simple, silent).await);
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
    let text = error.to_string();
    assert!(text.contains("cannot act as carol"), "{text}");
}

#[tokio::test]
async fn connection_is_private_if_its_layer_encrypts() {
    for (options, accepted, expected) in [
        (options(), private(), true),
        (options(), Accepted::Authenticated(None), false),
        (with_fallback(None), Accepted::Simple, false),
    ] {
        let opened = begin(options, accepted, silent).await.unwrap();
        assert_eq!(opened.is_private, expected);
    }
}

#[tokio::test]
async fn aes_takes_the_place_of_the_layer_when_the_server_sends_keys() {
    let opened = begin(with_aes(), private(), async |mut server| {
        let header = read_header(&mut server).await;
        assert_eq!(header.rpc_crypto_cipher_transformation(), CIPHER);
        let message = pb::ConnectionHeaderResponse {
            crypto_cipher_meta: Some(keys()),
        };
        answer(&mut server, &message.encode_to_vec()).await;
    });
    let opened = opened.await.unwrap();
    assert!(opened.greeting.is_empty() && opened.is_private);
}

#[tokio::test(start_paused = true)]
async fn server_that_sends_no_keys_is_refused_with_the_setting() {
    let opened = begin(with_aes(), private(), async |mut server| {
        read_header(&mut server).await;
        // It waits for a request.
        let _ = server.read_u8().await;
    });
    let error = refused(opened.await);
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
    assert!(
        error.hint().contains("hbase.rpc.crypto.encryption.aes.enabled"),
        "{error}"
    );
}

#[tokio::test]
async fn keys_that_cannot_be_read_are_refused() {
    let cbc = pb::CryptoCipherMeta {
        transformation: "AES/CBC/NoPadding".into(),
        ..keys()
    };
    let cbc = pb::ConnectionHeaderResponse {
        crypto_cipher_meta: Some(cbc),
    };
    for message in [&b""[..], b"\xff", &[0; MAX_KEYS + 1], &cbc.encode_to_vec()] {
        let opened = begin(with_aes(), private(), async |mut server| {
            read_header(&mut server).await;
            answer(&mut server, message).await;
            let _ = server.read_u8().await;
        });
        refused(opened.await);
    }
}

#[tokio::test]
async fn refusal_instead_of_keys_is_reported() {
    let (ours, mut theirs) = duplex(1 << 10);
    let authenticator = authenticator(&with_aes());
    let serve = async {
        theirs.read_u8().await.unwrap();
        let error = b"\0\0\0\x01\0\0\0\x03a.B\0\0\0\x02no";
        theirs.write_all(error).await.unwrap();
    };
    let begun = authenticator.protect(ours, private(), header, |_| false);
    let (opened, ()) = tokio::join!(begun, serve);
    let HandshakeError::Stream(error) = opened.unwrap_err() else {
        panic!("no error of the stream");
    };
    let error = AuthenticationError::of_socket(&error).unwrap();
    assert_eq!(error.exception().unwrap().to_string(), "a.B: no");
}

/// Returns the principal for a server of the registry that reports this one.
fn principal(reported: Option<&str>) -> Result<String, AuthenticationError> {
    let kerberos = Kerberos::new("hm/_HOST@R").with_region_server_principal("rs/_HOST@R");
    let target = Target {
        host: "h",
        role: Role::Registry,
        reported_principal: reported,
    };
    principal_of(&kerberos, target).map(|principal| principal.on("h", true).to_string())
}

#[test]
fn server_of_the_registry_has_the_principal_that_it_reports() {
    for (reported, expected) in [
        (None, "hm/h@R"),
        (Some("rs/h@R"), "rs/h@R"),
        (Some("hm/h@R"), "hm/h@R"),
        (Some("root"), "hm/h@R"),
    ] {
        assert_eq!(principal(reported).unwrap(), expected);
    }
    let error = principal(Some("other/h@R")).unwrap_err();
    assert!(
        matches!(error, AuthenticationError::UnknownPrincipal(_)),
        "{error}"
    );
}

#[test]
fn server_of_the_registry_is_asked_only_if_principals_differ() {
    let asks = |kerberos, role| {
        let options = AuthenticationOptions {
            kerberos: Some(kerberos),
            ..AuthenticationOptions::default()
        };
        authenticator(&options).asks_for_principal(role)
    };
    let differ = || Kerberos::new("hm/_HOST@R").with_region_server_principal("rs/_HOST@R");
    assert!(asks(differ(), Role::Registry));
    assert!(!asks(differ(), Role::Master));
    assert!(!asks(Kerberos::new("hm/_HOST@R"), Role::Registry));
    assert!(!asks(
        Kerberos::default().with_master_principal("hm/_HOST@R"),
        Role::Registry
    ));
}

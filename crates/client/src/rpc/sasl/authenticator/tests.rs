use bytes::BufMut;
use tokio::io::{DuplexStream, duplex};

use super::{
    super::{mechanism::SecurityLayer, scripted::Numbered},
    *,
};
use crate::{
    error::ErrorKind,
    wire::{cell_block::Codec, connection_header::Service},
};

const HEADER: Header<'static> = Header {
    service: Service::Client,
    codec: Codec::KeyValue,
    compression: None,
    effective_user: Some("bob"),
    cipher: None,
    attributes: &[],
};

fn config() -> Config {
    Config::from_uri("hbase+rpc://m")
        .unwrap()
        .with_kerberos(Some(Kerberos::new("hbase/_HOST@R")))
}

fn private() -> Accepted {
    Accepted::Authenticated(Some(Box::<Numbered>::default()))
}

/// Begins a connection with a server that runs as given.
async fn begin(
    config: Config,
    accepted: Accepted,
    server: impl AsyncFnOnce(SaslStream<DuplexStream>),
) -> Result<Opened, CallError> {
    let (ours, theirs) = duplex(1 << 16);
    let layer: Box<dyn SecurityLayer> = Box::<Numbered>::default();
    let theirs = SaslStream::new(theirs, Some(layer), 1 << 20);
    let authenticator = Authenticator::new(&config).unwrap();
    let (opened, ()) = tokio::join!(
        authenticator.begin(Box::new(ours), accepted, HEADER),
        server(theirs)
    );
    opened
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
        let config = config().with_effective_user(user.map(str::to_owned));
        let accepted = Accepted::Authenticated(None);
        let Opened { greeting, .. } = begin(config, accepted, silent).await.unwrap();
        let sent = sent_header(&greeting).user_info.map(|info| info.effective_user);
        assert_eq!(sent.as_deref(), expected);
    }
}

#[tokio::test]
async fn server_without_security_is_used_only_if_that_is_allowed() {
    let error = begin(config(), Accepted::Simple, silent).await.err().unwrap();
    let error = error.into_error();
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
    assert!(
        error.to_string().contains("fallback-to-simple-auth-allowed"),
        "{error}"
    );
    let config = config().with_fallback_to_simple(true);
    let Opened { greeting, .. } = begin(config, Accepted::Simple, silent).await.unwrap();
    let user = sent_header(&greeting).user_info.unwrap();
    assert_eq!(user.effective_user, "bob");
}

#[tokio::test]
async fn user_to_impersonate_is_not_lost_on_a_server_without_security() {
    let config = config()
        .with_fallback_to_simple(true)
        .with_effective_user(Some("carol".into()));
    let error = begin(config, Accepted::Simple, silent).await.err().unwrap();
    let error = error.into_error();
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
    let text = error.to_string();
    assert!(text.contains("cannot act as carol"), "{text}");
}

#[tokio::test]
async fn connection_is_private_if_its_layer_encrypts() {
    let simple = config().with_fallback_to_simple(true);
    for (config, accepted, expected) in [
        (config(), private(), true),
        (config(), Accepted::Authenticated(None), false),
        (simple, Accepted::Simple, false),
    ] {
        let opened = begin(config, accepted, silent).await.unwrap();
        assert_eq!(opened.is_private, expected);
    }
}

#[tokio::test]
async fn aes_takes_the_place_of_the_layer_when_the_server_sends_keys() {
    let opened = begin(config().with_aes(true), private(), async |mut server| {
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
    let opened = begin(config().with_aes(true), private(), async |mut server| {
        read_header(&mut server).await;
        // It waits for a request.
        let _ = server.read_u8().await;
    });
    let error = opened.await.err().unwrap().into_error();
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
    let text = error.to_string();
    assert!(text.contains("hbase.rpc.crypto.encryption.aes.enabled"), "{text}");
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
        let opened = begin(config().with_aes(true), private(), async |mut server| {
            read_header(&mut server).await;
            answer(&mut server, message).await;
            let _ = server.read_u8().await;
        });
        let error = opened.await.err().unwrap();
        assert!(matches!(error, CallError::Unauthenticated(_)), "{error:?}");
    }
}

#[tokio::test]
async fn refusal_instead_of_keys_is_reported() {
    let (ours, mut theirs) = duplex(1 << 10);
    let authenticator = Authenticator::new(&config().with_aes(true)).unwrap();
    let serve = async {
        theirs.read_u8().await.unwrap();
        let error = b"\0\0\0\x01\0\0\0\x03a.B\0\0\0\x02no";
        theirs.write_all(error).await.unwrap();
    };
    let begun = authenticator.begin(Box::new(ours), private(), HEADER);
    let (opened, ()) = tokio::join!(begun, serve);
    let error = opened.err().unwrap();
    assert!(error.to_string().contains("B: no"), "{error}");
}

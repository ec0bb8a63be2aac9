//! TLS in a build without the feature `tls`: every handshake is refused.

use std::{io, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{error::ErrorKind, tls_failure::TlsFailure, tls_keys::TlsKeys, tls_options::TlsOptions};

/// TLS to the servers of a cluster or quorum, which this build does not have.
#[derive(Debug)]
pub struct TlsClient;

impl TlsClient {
    /// Creates a client that refuses every handshake.
    #[must_use]
    pub fn new(_: TlsOptions, _: &'static TlsKeys) -> Self {
        Self
    }

    /// Refuses the stream: it would stay unprotected.
    ///
    /// # Errors
    ///
    /// Returns a [`TlsFailure`] that names the feature.
    pub async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
        self: &Arc<Self>,
        _: S,
        _: &str,
    ) -> io::Result<S> {
        Err(TlsFailure::new(
            ErrorKind::InvalidConfig,
            "TLS is set; this build has no TLS",
            "build it with the feature tls",
        )
        .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn handshake_is_refused_by_the_name_of_the_feature() {
        let options = TlsOptions::new("/t.jks", "");
        let client = Arc::new(TlsClient::new(options, &TlsKeys::HBASE));
        let error = client.handshake(tokio::io::empty(), "h").await.unwrap_err();
        let failure = TlsFailure::in_error(&error).unwrap();
        assert!(failure.hint().contains("feature tls"), "{failure}");
    }
}

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

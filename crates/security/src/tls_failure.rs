//! The failures of TLS that another attempt does not fix, with what to do.

use std::{borrow::Cow, io};

use crate::{error::ErrorKind, tls_keys::TlsKeys};

/// A failure of TLS that another attempt does not fix. It travels inside an [`io::Error`].
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}")]
pub struct TlsFailure {
    pub(crate) kind: ErrorKind,
    pub(crate) what: Cow<'static, str>,
    pub(crate) hint: Cow<'static, str>,
}

impl TlsFailure {
    pub(crate) fn new(
        kind: ErrorKind,
        what: impl Into<Cow<'static, str>>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            kind,
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// Creates the failure of a server without TLS.
    #[must_use]
    pub fn not_spoken(keys: &TlsKeys) -> Self {
        let TlsKeys {
            enabled,
            method,
            enabled_on_servers,
            ..
        } = keys;
        Self::new(
            ErrorKind::Protocol,
            "the server does not speak TLS",
            format!(
                "enable it on the servers ({enabled_on_servers}), or switch it off here ({enabled}, {method})"
            ),
        )
    }

    /// Returns the failure inside an error of a stream.
    #[must_use]
    pub fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns an instruction on what to do.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl From<TlsFailure> for io::Error {
    fn from(failure: TlsFailure) -> Self {
        Self::new(io::ErrorKind::InvalidData, failure)
    }
}

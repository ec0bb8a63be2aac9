//! The settings of authentication, and of the protection of messages afterwards.

use std::path::PathBuf;

use crate::{delegation_token::DelegationToken, kerberos::Kerberos, protection::Protection};

/// How a client authenticates, and how it protects messages afterwards. The default is SIMPLE
/// authentication.
#[derive(Clone, Debug)]
pub struct AuthenticationOptions {
    /// How the client authenticates by Kerberos.
    pub kerberos: Option<Kerberos>,
    /// The delegation tokens that the client may authenticate with.
    pub tokens: Vec<DelegationToken>,
    /// The file that the tokens are from.
    pub token_file: Option<PathBuf>,
    /// The protections that the client accepts, in order of preference.
    pub protection: Vec<Protection>,
    /// Whether the client accepts a server without security.
    pub fallback_to_simple: bool,
    /// Whether messages are encrypted by AES with keys of HBase.
    pub aes: bool,
    /// The user as whom the client acts, although it authenticates as another one.
    pub effective_user: Option<String>,
}

impl AuthenticationOptions {
    /// Returns whether the client has SIMPLE authentication: no other way is set.
    #[must_use]
    pub fn is_simple(&self) -> bool {
        self.kerberos.is_none() && self.tokens.is_empty()
    }
}

impl Default for AuthenticationOptions {
    fn default() -> Self {
        Self {
            kerberos: None,
            tokens: Vec::new(),
            token_file: None,
            protection: vec![Protection::Authentication],
            fallback_to_simple: false,
            aes: false,
            effective_user: None,
        }
    }
}

//! The delegation token of the cluster.

use hbase_security::{DelegationToken, latest_token};

use crate::{
    config::Config,
    error::{Error, ErrorKind, Result},
};

/// Returns the token for a cluster. Returns `None` if the client is to authenticate by Kerberos.
///
/// # Errors
///
/// Returns an error if no token is for the cluster and there is no other way to authenticate, or if
/// the id of the cluster is not known and there are several tokens.
pub(super) fn token_of_cluster<'a>(
    config: &'a Config,
    cluster_id: Option<&str>,
) -> Result<Option<&'a DelegationToken>> {
    let tokens = config.delegation_tokens();
    let token = match (cluster_id, tokens) {
        (Some(id), _) => latest_token(tokens, id),
        (None, [token]) => Some(token),
        (None, _) => {
            return Err(Error::invalid_config(
                "there are delegation tokens of several clusters, and the servers do not report the id of theirs",
            )
            .with_hint(
                "connect by hbase+zk://, or set the token of this cluster alone (Config::with_delegation_tokens)",
            ));
        }
    };
    match token {
        Some(_) if config.effective_user().is_some() => Err(Error::invalid_config(
            "a client with a delegation token cannot act as another user",
        )
        .with_hint("leave out the effective user, or the token")),
        None if config.kerberos().is_none() => {
            let ids: Vec<_> = tokens.iter().map(DelegationToken::cluster_id).collect();
            Err(Error::new(
                ErrorKind::AuthenticationFailed,
                format!(
                    "no delegation token is for cluster {}, but for {}",
                    cluster_id.unwrap_or_default(),
                    ids.join(", ")
                ),
            )
            .with_hint("obtain a token from this cluster"))
        }
        token => Ok(token),
    }
}

#[cfg(test)]
mod tests {
    use hbase_security::Kerberos;

    use super::*;
    use crate::config::token_of;

    fn config(clusters: &[&str]) -> Config {
        let config = Config::from_uri("hbase+rpc://m").unwrap();
        config.with_delegation_tokens(clusters.iter().map(|id| token_of(id)))
    }

    fn chosen(config: &Config, cluster_id: Option<&str>) -> Option<String> {
        let token = token_of_cluster(config, cluster_id).unwrap();
        token.map(|token| token.cluster_id().to_owned())
    }

    #[test]
    fn token_of_the_cluster_is_chosen() {
        let two = config(&["a", "b"]);
        assert_eq!(chosen(&two, Some("b")).as_deref(), Some("b"));
        let one = config(&["a"]);
        assert_eq!(chosen(&one, Some("a")).as_deref(), Some("a"));
        assert_eq!(chosen(&one, None).as_deref(), Some("a"));
        let ambiguous = token_of_cluster(&two, None).unwrap_err();
        assert_eq!(ambiguous.kind(), ErrorKind::InvalidConfig, "{ambiguous}");
    }

    #[test]
    fn kerberos_is_used_without_a_token_for_the_cluster() {
        let kerberos = config(&["a"]).with_kerberos(Some(Kerberos::new("hbase/_HOST@R")));
        assert_eq!(chosen(&kerberos, Some("c")), None);
        assert_eq!(chosen(&kerberos, Some("a")).as_deref(), Some("a"));
        let error = token_of_cluster(&config(&["a", "b"]), Some("c")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
        assert!(error.to_string().contains("cluster c, but for a, b"), "{error}");
    }

    #[test]
    fn token_allows_no_other_user() {
        let config = config(&["a"]).with_effective_user(Some("bob".into()));
        let error = token_of_cluster(&config, Some("a")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
}

//! The principals of servers.

use hbase_gssapi::Service;

use crate::authentication_error::AuthenticationError;

/// The key of the principal of masters.
pub(super) const MASTER: &str = "hbase.master.kerberos.principal";
/// The key of the principal of region servers.
pub(super) const REGION_SERVER: &str = "hbase.regionserver.kerberos.principal";

/// Stands for the host of the server.
const HOST: &str = "_HOST";

/// The principal of a server, as it is set: `service/host@REALM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerPrincipal<'a> {
    service: &'a str,
    host: &'a str,
    realm: &'a str,
}

impl<'a> ServerPrincipal<'a> {
    /// Reads the value of a key.
    pub(super) fn of_setting(key: &'static str, value: Option<&'a str>) -> Result<Self, AuthenticationError> {
        let Some(value) = value else {
            return Err(AuthenticationError::NoPrincipal { key });
        };
        Self::parse(value).ok_or_else(|| AuthenticationError::BadPrincipal {
            key,
            value: value.to_owned(),
        })
    }

    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (name, realm) = text.rsplit_once('@')?;
        let (service, host) = name.split_once('/')?;
        let is_complete = [service, host, realm].iter().all(|part| !part.is_empty());
        let is_plain = !host.contains('/') && !name.contains('@');
        (is_complete && is_plain).then_some(Self { service, host, realm })
    }

    /// Returns whether the principal that a server says it has is of this setting.
    pub(super) fn matches(&self, of_server: &ServerPrincipal<'_>) -> bool {
        self.service == of_server.service
            && self.realm == of_server.realm
            && (self.host == HOST || self.host == of_server.host)
    }

    /// Returns the principal of a server on a host. With a placeholder for the host the library
    /// determines its full name and realm, unless the host is to be used as it is named.
    pub(super) fn on(&self, host: &str, host_as_named: bool) -> Service {
        let Self {
            service,
            host: fixed,
            realm,
        } = self;
        match *fixed == HOST {
            true if host_as_named => Service::Principal(format!("{service}/{}@{realm}", host.to_lowercase())),
            true => Service::host_based(service, host),
            false => Service::Principal(format!("{service}/{fixed}@{realm}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("hbase/_HOST@R", false, "hbase@Rs1.example.com")]
    #[case("hbase/_HOST@R", true, "hbase/rs1.example.com@R")]
    #[case("hbase/fixed@R", false, "hbase/fixed@R")]
    #[case("hbase/fixed@R", true, "hbase/fixed@R")]
    fn host_takes_the_place_of_its_placeholder(
        #[case] setting: &str,
        #[case] host_as_named: bool,
        #[case] expected: &str,
    ) {
        let principal = ServerPrincipal::of_setting(MASTER, Some(setting)).unwrap();
        let service = principal.on("Rs1.example.com", host_as_named);
        assert_eq!(service.to_string(), expected);
        assert_eq!(
            matches!(service, Service::HostBased(_)),
            expected.contains("hbase@")
        );
    }

    #[rstest]
    #[case(None, "is not set")]
    #[case(Some("hbase"), "hbase.master.kerberos.principal is \"hbase\"")]
    #[case(Some("hbase@R"), "is not of the form")]
    #[case(Some("hbase/_HOST"), "is not of the form")]
    #[case(Some("hbase/@R"), "is not of the form")]
    #[case(Some("/_HOST@R"), "is not of the form")]
    #[case(Some("hbase/_HOST@"), "is not of the form")]
    #[case(Some("hbase/a/b@R"), "is not of the form")]
    #[case(Some("hbase/a@b@R"), "is not of the form")]
    fn setting_without_three_parts_is_refused_by_name(#[case] setting: Option<&str>, #[case] why: &str) {
        let error = ServerPrincipal::of_setting(MASTER, setting).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.to_string().contains(MASTER), "{error}");
    }

    #[rstest]
    #[case("hbase/_HOST@R", true)]
    #[case("hbase/m1@R", true)]
    #[case("hbase/m2@R", false)]
    #[case("rs/_HOST@R", false)]
    #[case("hbase/_HOST@OTHER", false)]
    fn principal_of_a_server_is_matched_to_its_setting(#[case] setting: &str, #[case] matches: bool) {
        let of_server = ServerPrincipal::parse("hbase/m1@R").unwrap();
        assert_eq!(
            ServerPrincipal::parse(setting).unwrap().matches(&of_server),
            matches
        );
    }
}

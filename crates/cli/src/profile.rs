//! Profiles: named sets of global options in a file of the user, and the options that a command
//! has in the end.

use std::{
    borrow::Cow,
    env,
    fs::File,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ValueEnum;
use hbase_txn::client::{ConnectionUri, MappedAddress};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    durations,
    exit::Failure,
    global::{Format, Global, LogFilter, Options, Profile, cluster},
    output,
};

/// The maximum size of the file in bytes.
const MAX_SIZE: u64 = 1 << 20;
/// The file, in the user's folder of settings.
const FILE: &str = "hbase-txn/config.toml";
/// The maximum timeout, which all clocks can represent.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
/// The variable with the name of a profile.
const VARIABLE: &str = "HBASE_TXN_PROFILE";
const KEYS: &str = "connect, config, conf_dir, resolve, timeout, connect_timeout, read_timeout, write_timeout, \
                    registry_timeout, output, change_log, log";

/// Returns a variable of the environment. An empty one counts as not set.
pub(crate) fn variable(name: &str) -> Option<String> {
    let text = env::var_os(name)?.to_string_lossy().into_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// Parses a variable of the environment, if it is set.
fn parsed<T, E: ToString>(
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, Failure> {
    let Some(text) = variable(name) else {
        return Ok(None);
    };
    let refusal = |error: E| {
        let error = error.to_string();
        Failure::Unparsable(format!("environment variable {name}: {text:?}: {error}"))
    };
    parse(&text).map(Some).map_err(refusal)
}

fn format(text: &str) -> Result<Format, String> {
    Format::from_str(text, false)
}

fn mapped_addresses(text: &str) -> Result<Vec<MappedAddress>, hbase_client::Error> {
    text.split(',').map(|entry| entry.trim().parse()).collect()
}

impl Options {
    /// Adds what the environment and the profile have. An option takes precedence over the
    /// environment, and the environment over the profile.
    pub(crate) fn resolve(self) -> Result<Global, Failure> {
        let profile = match self.profile.or_else(|| variable(VARIABLE)) {
            Some(name) => Profile {
                name: name.clone(),
                ..of_file(&file()?, &name)?
            },
            None => Profile::default(),
        };
        let timeout = match self.timeout {
            Some(timeout) => Some(timeout.get("--timeout")?),
            None => match parsed("HBASE_TXN_TIMEOUT", durations::parse)? {
                Some(timeout) => Some(timeout.get("HBASE_TXN_TIMEOUT")?),
                None => profile.timeout,
            },
        };
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Failure::Unparsable(
                "a timeout of 0 s leaves no time for a call; write at least 1ms".to_owned(),
            ));
        }
        let output = match self.output {
            Some(output) => Some(output),
            None => parsed("HBASE_TXN_OUTPUT", format)?.or(profile.output),
        };
        let log = match self.log {
            Some(log) => Some(log),
            None => parsed("HBASE_TXN_LOG", str::parse)?.or_else(|| profile.log.clone()),
        };
        let connect = match self.connect {
            Some(text) => {
                Some(cluster(&text).map_err(|error| Failure::Unparsable(format!("--connect: {error}")))?)
            }
            None => None,
        };
        let mut resolve = self.resolve;
        resolve.extend(parsed("HBASE_TXN_RESOLVE", mapped_addresses)?.unwrap_or_default());
        resolve.extend(profile.resolve.iter().cloned());
        Ok(Global {
            connect,
            resolve,
            config: self
                .config
                .or_else(|| variable("HBASE_TXN_CONFIG").map(PathBuf::from)),
            output: output.unwrap_or_default(),
            timeout: timeout.map(|timeout| timeout.min(YEAR)),
            change_log: self
                .change_log
                .or_else(|| variable("HBASE_TXN_CHANGE_LOG").map(PathBuf::from))
                .or_else(|| profile.change_log.clone()),
            log,
            profile,
        })
    }
}

/// Returns the path of the file. As the XDG specification demands, a relative folder is ignored.
fn file() -> Result<PathBuf, Failure> {
    let folder = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = || folder("HOME").map(|home| home.join(".config"));
    let folder = folder("XDG_CONFIG_HOME").or_else(home);
    let folder = folder.ok_or_else(|| {
        Failure::Refused("profiles are in ~/.config, but neither XDG_CONFIG_HOME nor HOME is set".to_owned())
    });
    Ok(folder?.join(FILE))
}

/// Reads a profile. Mistakes anywhere in the file are refused.
fn of_file(path: &Path, name: &str) -> Result<Profile, Failure> {
    let read = File::open(path).and_then(|file| {
        let mut text = String::new();
        file.take(MAX_SIZE + 1).read_to_string(&mut text)?;
        Ok(text)
    });
    let text = match read {
        Ok(text) if text.len() as u64 <= MAX_SIZE => text,
        Ok(_) => {
            let why = format!("{} is longer than {MAX_SIZE} bytes", path.display());
            return Err(Failure::Refused(why));
        }
        Err(error) => {
            let missing = match error.kind() {
                io::ErrorKind::NotFound => format!("; write a section [profile.{name}] there"),
                _ => String::new(),
            };
            let why = output::plain(&error);
            let path = path.display();
            return Err(Failure::Refused(format!(
                "profile {name}: reading {path}: {why}{missing}"
            )));
        }
    };
    Text { path, text: &text }.profile(name)
}

/// The contents of the file.
struct Text<'t> {
    path: &'t Path,
    text: &'t str,
}

impl Text<'_> {
    fn profile(&self, name: &str) -> Result<Profile, Failure> {
        let document =
            DeTable::parse(self.text).map_err(|error| self.fault(error.span(), error.message()))?;
        let (mut wanted, mut names) = (None, Vec::new());
        for (key, value) in document.get_ref() {
            if key.get_ref() != "profile" {
                let why = format!("unknown key {:?}; known is profile", key.get_ref());
                return Err(self.fault(Some(key.span()), &why));
            }
            for (key, value) in self.table(value, "profile")? {
                let profile = self.one(value, key.get_ref())?;
                names.push(key.get_ref().to_string());
                if key.get_ref() == name {
                    wanted = Some(profile);
                }
            }
        }
        names.sort();
        wanted.ok_or_else(|| {
            let known = if names.is_empty() {
                String::new()
            } else {
                format!("; it has {}", names.join(", "))
            };
            Failure::Refused(format!("{} has no profile {name}{known}", self.path.display()))
        })
    }

    fn one(&self, value: &Spanned<DeValue<'_>>, name: &str) -> Result<Profile, Failure> {
        let mut profile = Profile::default();
        for (key, value) in self.table(value, name)? {
            let fault = |why: &str| self.fault(Some(value.span()), &format!("{}: {why}", key.get_ref()));
            let unknown = || {
                let why = format!(
                    "unknown key {:?} in profile {name}; known are {KEYS}",
                    key.get_ref()
                );
                self.fault(Some(key.span()), &why)
            };
            if key.get_ref() == "resolve" {
                profile.resolve = self.resolve(value)?;
                continue;
            }
            let Some(text) = value.get_ref().as_str() else {
                return Err(if KEYS.split(", ").any(|known| known == key.get_ref()) {
                    fault("write text in quotes")
                } else {
                    unknown()
                });
            };
            let path = || self.path.parent().unwrap_or_else(|| Path::new("")).join(text);
            let duration = || {
                let duration = durations::parse(text).map_err(|why| fault(&why))?;
                duration.value().map(Some).ok_or_else(|| fault("out of range"))
            };
            match key.get_ref().as_ref() {
                "connect" => {
                    let uri = text.parse::<ConnectionUri>();
                    profile.connect = Some(uri.map_err(|error| fault(&error.to_string()))?);
                }
                "config" => profile.config = Some(path()),
                "conf_dir" => profile.conf_dir = Some(path()),
                "timeout" => profile.timeout = duration()?,
                "connect_timeout" => profile.connect_timeout = duration()?,
                "read_timeout" => profile.read_timeout = duration()?,
                "write_timeout" => profile.write_timeout = duration()?,
                "registry_timeout" => profile.registry_timeout = duration()?,
                "output" => profile.output = Some(format(text).map_err(|_| fault("write table or json"))?),
                "change_log" => profile.change_log = Some(path()),
                "log" => {
                    let log = text.parse::<LogFilter>();
                    profile.log = Some(log.map_err(|error| fault(&error.to_string()))?);
                }
                _ => return Err(unknown()),
            }
        }
        if profile.config.is_some() && profile.conf_dir.is_some() {
            let why = format!("profile {name} has config and conf_dir; it has one of them");
            return Err(self.fault(Some(value.span()), &why));
        }
        Ok(profile)
    }

    /// Reads the addresses to dial, by the hosts that they stand for.
    fn resolve(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<MappedAddress>, Failure> {
        let entry = |(host, address): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
            let fault = |why: &str| self.fault(Some(host.span()), &format!("resolve: {why}"));
            let text = address.get_ref().as_str();
            let text = text.ok_or_else(|| fault("write \"HOST:PORT\" = \"ADDRESS\", both in quotes"))?;
            let entry = format!("{}={text}", host.get_ref()).parse();
            entry.map_err(|error: hbase_client::Error| fault(&error.to_string()))
        };
        self.table(value, "resolve")?.iter().map(entry).collect()
    }

    fn table<'d>(&self, value: &'d Spanned<DeValue<'d>>, name: &str) -> Result<&'d DeTable<'d>, Failure> {
        let table = value.get_ref().as_table();
        table.ok_or_else(|| self.fault(Some(value.span()), &format!("{name} is not a table")))
    }

    /// Returns a mistake with its line and column.
    fn fault(&self, place: Option<Range<usize>>, why: &str) -> Failure {
        let at = place.unwrap_or_default().start;
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Failure::Unparsable(format!("{}:{line}:{column}: {why}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn profile(text: &str) -> Result<Profile, String> {
        let path = Path::new("/etc/h/config.toml");
        Text { path, text }
            .profile("p")
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn profile_has_all_options() {
        let text = "[profile.other]\n[profile.p]\nconnect = 'hbase+rpc://m'\nconf_dir = 'site'\ntimeout = '5s'\n\
                    connect_timeout = '1s'\nread_timeout = '2s'\nwrite_timeout = '3s'\nregistry_timeout = '4s'\n\
                    output = 'json'\nchange_log = 'changes'\nlog = 'warn'\n";
        let found = profile(text).unwrap();
        assert_eq!(found.connect.unwrap().to_string(), "hbase+rpc://m:16000");
        assert_eq!(found.conf_dir.unwrap(), Path::new("/etc/h/site"));
        let times = [
            found.timeout,
            found.connect_timeout,
            found.read_timeout,
            found.write_timeout,
            found.registry_timeout,
        ];
        assert_eq!(
            times,
            [5, 1, 2, 3, 4].map(|seconds| Some(Duration::from_secs(seconds)))
        );
        assert_eq!(found.change_log.unwrap(), Path::new("/etc/h/changes"));
        assert_eq!((found.output, found.log.is_some()), (Some(Format::Json), true));
        assert_eq!(profile("[profile.p]"), Ok(Profile::default()));
        let absolute = profile("profile.p.config = '/a/b.xml'").unwrap();
        assert_eq!(absolute.config.unwrap(), Path::new("/a/b.xml"));
    }

    #[rstest]
    #[case(
        "[profile.p]\n\ncolour = 'red'",
        "3:1: unknown key \"colour\" in profile p; known are connect, config"
    )]
    #[case("[profile.p]\ncolour = 1", "2:1: unknown key \"colour\"")]
    #[case("[profiles.p]", "1:2: unknown key \"profiles\"; known is profile")]
    #[case("[profile.p]\n[profile.q]\nx = 'y'", "3:1: unknown key \"x\" in profile q")]
    #[case("[profile.p]\ntimeout = 5", "2:11: timeout: write text in quotes")]
    #[case("[profile.p]\n  timeout = 'soon'", "2:13: timeout: write a duration as")]
    #[case("[profile.p]\ntimeout = '-1s'", "2:11: timeout: out of range")]
    #[case("[profile.p]\nconnect = 'foo'", "2:11: connect: ")]
    #[case("[profile.p]\noutput = 'xml'", "2:10: output: write table or json")]
    #[case("[profile.p]\nlog = 'a=b=c'", "2:7: log: ")]
    #[case(
        "[profile.p]\nconfig = 'a'\nconf_dir = 'b'",
        "profile p has config and conf_dir"
    )]
    #[case("[profile.p]\nresolve = 'a=b'", "2:11: resolve is not a table")]
    #[case("[profile.p.resolve]\n'a:x' = 'b'", "2:1: resolve: mapped address \"a:x=b\"")]
    #[case("[profile.p.resolve]\nrs-0.hbase = 'b'", "2:1: resolve: write \"HOST:PORT\"")]
    #[case("profile = 1", "1:11: profile is not a table")]
    #[case("[profile]\np = 1", "2:5: p is not a table")]
    #[case("[profile.p]\nconnect = 'a", "2:")]
    fn mistakes_have_a_position(#[case] text: &str, #[case] why: &str) {
        let refusal = profile(text).unwrap_err();
        assert!(
            refusal.starts_with("/etc/h/config.toml:") && refusal.contains(why),
            "{refusal}"
        );
    }

    #[test]
    fn resolve_is_a_table_of_hosts() {
        let text = "[profile.p.resolve]\n'rs-0.hbase:16020' = 'localhost:26020'\n'zk' = '[::1]'\n";
        let found = profile(text).unwrap().resolve;
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["rs-0.hbase:16020=localhost:26020", "zk=[::1]"]);
    }

    #[test]
    fn missing_profile_is_named_with_those_that_exist() {
        let refusal = profile("[profile.b]\n[profile.a]").unwrap_err();
        assert_eq!(refusal, "/etc/h/config.toml has no profile p; it has a, b");
        assert_eq!(profile("").unwrap_err(), "/etc/h/config.toml has no profile p");
    }
}

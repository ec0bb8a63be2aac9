//! Where the ticket of the client comes from.

use std::{
    collections::BTreeMap,
    ffi::{CString, NulError},
    path::{Path, PathBuf},
    ptr,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    buffer::Buffer,
    error::{Error, ErrorKind},
    keytab,
    library::Library,
    sys::{ERRORS, Handle, INDEFINITE, INITIATE, KeyValue, KeyValueSet, Oid, OidSet, RawBuffer, Word},
};

/// Where the ticket of the client comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The default cache of the user, which `kinit` fills and `KRB5CCNAME` names. The library reads
    /// it for each context, so a renewed ticket is used. If `KRB5_CLIENT_KTNAME` names a keytab, the
    /// library fills the cache from it.
    DefaultCache,
    /// A cache by name, for example `FILE:/run/user/1000/krb5cc`.
    Cache(String),
    /// A key in a file. The library gets tickets with it, and new ones before they expire.
    Keytab(Keytab),
}

/// A key in a file, for [`Credentials`]. Its tickets are in the memory of the process, and are shared
/// by all keytabs of the same file and principal.
#[derive(Clone, Debug)]
pub struct Keytab {
    file: PathBuf,
    principal: String,
    cache: Arc<Mutex<MemoryCache>>,
}

impl PartialEq for Keytab {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file && self.principal == other.principal
    }
}

impl Eq for Keytab {}

/// The cache of a keytab. Its lock is held while tickets are requested: two threads that fill an
/// empty cache at the same time would each empty it first.
#[derive(Debug)]
struct MemoryCache {
    number: usize,
    generation: u32,
    /// The generation before, until this one has tickets.
    former: Option<u32>,
    forgotten_at: Option<Instant>,
}

impl MemoryCache {
    /// Begins a generation without tickets, unless the last one began within a minute. Returns whether it
    /// did.
    fn forget_at(&mut self, now: Instant) -> bool {
        let is_due = self
            .forgotten_at
            .is_none_or(|at| now.saturating_duration_since(at) >= FORGET_INTERVAL);
        if is_due {
            self.forgotten_at = Some(now);
            self.former.get_or_insert(self.generation);
            self.generation = self.generation.wrapping_add(1);
        }
        is_due
    }

    /// Returns to the former tickets if no new ones can be requested. The refusal that they were
    /// forgotten for had no proof that a server sent it.
    fn settle<T>(&mut self, result: &Result<T, Error>) {
        match result {
            Ok(_) => self.former = None,
            Err(error) if error.kind() == ErrorKind::KdcUnreachable => {
                if let Some(former) = self.former.take() {
                    self.generation = former;
                }
            }
            Err(_) => {}
        }
    }
}

/// How often the tickets of a keytab may be forgotten. The library has no function that frees a
/// cache.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);

type Caches = BTreeMap<(PathBuf, String), Arc<Mutex<MemoryCache>>>;

static CACHES: LazyLock<Mutex<Caches>> = LazyLock::new(Mutex::default);

impl Keytab {
    /// Creates a keytab from its file and one of its principals, for example `alice@EXAMPLE.COM`.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>, principal: impl Into<String>) -> Self {
        let (file, principal) = (file.into(), principal.into());
        let mut caches = lock(&CACHES);
        let number = caches.len();
        let cache = caches
            .entry((file.clone(), principal.clone()))
            .or_insert_with(|| {
                Arc::new(Mutex::new(MemoryCache {
                    number,
                    generation: 0,
                    former: None,
                    forgotten_at: None,
                }))
            });
        Self {
            cache: Arc::clone(cache),
            file,
            principal,
        }
    }

    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the principal.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Forgets the tickets, so that the next context requests new ones: a server whose key has
    /// changed refuses the old ones. Does nothing within a minute of the last time. Returns whether
    /// the tickets were forgotten.
    ///
    /// An attacker on the network can forge the refusal of a server. So the old tickets are used again if
    /// no key distribution centre can be reached.
    pub fn forget_tickets(&self) -> bool {
        lock(&self.cache).forget_at(Instant::now())
    }

    /// Returns the reason why the keytab has no key of its principal, if it has none.
    fn fault(&self) -> Option<Error> {
        let what = || format!("cannot use the keytab {}", self.file.display());
        match keytab::principals_of(&self.file) {
            Err(error) => Some(Error::new(ErrorKind::KeytabUnreadable, what(), error.to_string())),
            Ok(principals) if !keytab::contains(&principals, &self.principal) => {
                let mut present: Vec<_> = principals.into_iter().collect();
                present.truncate(SHOWN_PRINCIPALS);
                let why = if present.is_empty() {
                    "it has no keys".to_owned()
                } else {
                    format!(
                        "it has no key of {}, but of {}",
                        self.principal,
                        present.join(", ")
                    )
                };
                Some(Error::new(ErrorKind::NotInKeytab, what(), why))
            }
            Ok(_) => None,
        }
    }
}

/// The number of principals of a keytab that an error names.
const SHOWN_PRINCIPALS: usize = 5;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Credentials {
    /// Returns the principal of the client. No ticket is requested for a keytab.
    pub(crate) fn principal(&self, library: &'static Library) -> Result<String, Error> {
        match self {
            Self::Keytab(keytab) => Ok(keytab.principal.clone()),
            Self::DefaultCache | Self::Cache(_) => self.with(library, |credential| credential.name()?.text()),
        }
    }

    /// Runs a function with the credentials, which may request tickets.
    pub(crate) fn with<T>(
        &self,
        library: &'static Library,
        run: impl FnOnce(Credential) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self {
            Self::DefaultCache => run(Credential::acquire(library)?),
            Self::Cache(name) => run(Credential::acquire_from(library, None, &[("ccache", name)])?),
            Self::Keytab(keytab) => {
                let mut cache = lock(&keytab.cache);
                let name = format!("MEMORY:hbase-gssapi-{}-{}", cache.number, cache.generation);
                let file = keytab.file.to_string_lossy();
                let store = [("client_keytab", &*file), ("ccache", &*name)];
                let result = Credential::acquire_from(library, Some(&keytab.principal), &store).and_then(run);
                cache.settle(&result);
                drop(cache);
                result.map_err(|error| match error.kind() {
                    ErrorKind::NoTicket | ErrorKind::Other => keytab.fault().unwrap_or(error),
                    _ => error,
                })
            }
        }
    }
}

/// Credentials in the library.
#[derive(Debug)]
pub(crate) struct Credential {
    library: &'static Library,
    handle: Handle,
}

// SAFETY: only this value has the handle, and the library uses credentials on any thread.
unsafe impl Send for Credential {}

impl Credential {
    fn acquire(library: &'static Library) -> Result<Self, Error> {
        let mut credential = Self::empty(library);
        let mechanism = Oid::kerberos();
        let mechanisms = OidSet {
            count: 1,
            elements: &raw const mechanism,
        };
        let mut minor = 0;
        // SAFETY: all pointers are valid for the call. Without a name the library takes that of the
        // cache; it does not write the outputs that are null.
        let major = unsafe {
            (library.gss_acquire_cred)(
                &raw mut minor,
                ptr::null_mut(),
                INDEFINITE,
                &raw const mechanisms,
                INITIATE,
                &raw mut credential.handle,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        credential.checked(major, minor)
    }

    fn acquire_from(
        library: &'static Library,
        principal: Option<&str>,
        store: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let Some(acquire) = library.gss_acquire_cred_from else {
            return Err(Error::new(
                ErrorKind::LibraryUnsuitable,
                GET_TICKET,
                "the Kerberos library has no gss_acquire_cred_from",
            ));
        };
        let text = |text: &str| {
            CString::new(text)
                .map_err(|error: NulError| Error::new(ErrorKind::Other, GET_TICKET, error.to_string()))
        };
        let texts = store
            .iter()
            .map(|(key, value)| Ok((text(key)?, text(value)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let elements: Vec<_> = texts
            .iter()
            .map(|(key, value)| KeyValue {
                key: key.as_ptr(),
                value: value.as_ptr(),
            })
            .collect();
        let store = KeyValueSet {
            count: elements.len() as Word,
            elements: elements.as_ptr(),
        };
        let name = match principal {
            Some(principal) => Some(Name::import(library, principal, Oid::principal())?),
            None => None,
        };
        let mut credential = Self::empty(library);
        let mechanism = Oid::kerberos();
        let mechanisms = OidSet {
            count: 1,
            elements: &raw const mechanism,
        };
        let mut minor = 0;
        // SAFETY: all pointers are valid for the call, the texts of the store too; it does not write
        // the outputs that are null.
        let major = unsafe {
            acquire(
                &raw mut minor,
                name.as_ref().map_or(ptr::null_mut(), Name::handle),
                INDEFINITE,
                &raw const mechanisms,
                INITIATE,
                &raw const store,
                &raw mut credential.handle,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        credential.checked(major, minor)
    }

    const fn empty(library: &'static Library) -> Self {
        Self {
            library,
            handle: ptr::null_mut(),
        }
    }

    fn checked(self, major: Word, minor: Word) -> Result<Self, Error> {
        match major & ERRORS {
            0 => Ok(self),
            _ => Err(Error::of_status(self.library, GET_TICKET, major, minor)),
        }
    }

    pub(crate) const fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns the name of the client.
    fn name(&self) -> Result<Name, Error> {
        let mut name = Name::empty(self.library);
        let mut minor = 0;
        // SAFETY: all pointers are valid for the call; it does not write the outputs that are null.
        let major = unsafe {
            (self.library.gss_inquire_cred)(
                &raw mut minor,
                self.handle,
                &raw mut name.handle,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        match major & ERRORS {
            0 => Ok(name),
            _ => Err(Error::of_status(self.library, GET_TICKET, major, minor)),
        }
    }
}

const GET_TICKET: &str = "cannot get a ticket";
const READ_PRINCIPAL: &str = "cannot read a principal";

impl Drop for Credential {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the handle is null or was set by the library, and nothing uses it any more.
        unsafe { (self.library.gss_release_cred)(&raw mut minor, &raw mut self.handle) };
    }
}

/// A name in the library.
#[derive(Debug)]
pub(crate) struct Name {
    library: &'static Library,
    handle: Handle,
}

// SAFETY: only this value has the handle, and the library uses names on any thread.
unsafe impl Send for Name {}

impl Name {
    pub(crate) fn import(library: &'static Library, text: &str, form: Oid) -> Result<Self, Error> {
        let mut name = Self::empty(library);
        let text = RawBuffer::of(text.as_bytes());
        let mut minor = 0;
        // SAFETY: all pointers are valid for the call, which only reads the text.
        let major = unsafe {
            (library.gss_import_name)(
                &raw mut minor,
                &raw const text,
                &raw const form,
                &raw mut name.handle,
            )
        };
        match major & ERRORS {
            0 => Ok(name),
            _ => Err(Error::of_status(library, READ_PRINCIPAL, major, minor)),
        }
    }

    const fn empty(library: &'static Library) -> Self {
        Self {
            library,
            handle: ptr::null_mut(),
        }
    }

    /// Returns the text of the name, with the realm.
    fn text(&self) -> Result<String, Error> {
        let mut text = Buffer::new(self.library);
        let mut minor = 0;
        // SAFETY: all pointers are valid for the call, and the output is empty. The library does not
        // write the form, which is null.
        let major = unsafe {
            (self.library.gss_display_name)(&raw mut minor, self.handle, text.output(), ptr::null_mut())
        };
        match major & ERRORS {
            0 => Ok(String::from_utf8_lossy(&text).into_owned()),
            _ => Err(Error::of_status(self.library, READ_PRINCIPAL, major, minor)),
        }
    }

    pub(crate) const fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the handle is null or was set by the library, and nothing uses it any more.
        unsafe { (self.library.gss_release_name)(&raw mut minor, &raw mut self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::keytab::tests::keytab;

    fn acquire(credentials: &Credentials) -> Error {
        let library = Library::get().unwrap();
        // The library may find only when it needs a ticket that there is none.
        credentials
            .with(library, |_| Ok(()))
            .err()
            .unwrap_or_else(|| panic!("{credentials:?} has a ticket"))
    }

    #[test]
    fn cache_that_does_not_exist_has_no_ticket() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("FILE:{}", folder.path().join("none").display());
        let error = acquire(&Credentials::Cache(name));
        assert_eq!(error.kind(), ErrorKind::NoTicket, "{error}");
        assert!(error.hint().contains("kinit"));
    }

    #[test]
    fn keytab_that_cannot_be_read_or_lacks_the_principal_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("client.keytab");
        let error = |principal: &str| acquire(&Credentials::Keytab(Keytab::new(&file, principal)));
        let absent = error("alice@R.TEST");
        assert_eq!(absent.kind(), ErrorKind::KeytabUnreadable, "{absent}");
        assert!(absent.to_string().contains("client.keytab"), "{absent}");
        fs::write(&file, b"no keytab").unwrap();
        assert_eq!(error("alice@R.TEST").kind(), ErrorKind::KeytabUnreadable);
        fs::write(&file, keytab(&[&["bob"]])).unwrap();
        let lacking = error("alice@R.TEST");
        assert_eq!(lacking.kind(), ErrorKind::NotInKeytab, "{lacking}");
        assert!(lacking.to_string().contains("but of bob@R.TEST"), "{lacking}");
    }

    #[test]
    fn texts_with_nul_are_refused() {
        let error = acquire(&Credentials::Cache("MEMORY:\0".into()));
        assert!(error.to_string().contains("nul"), "{error}");
    }

    #[test]
    fn tickets_are_shared_and_forgotten_once_a_minute() {
        let keytab = Keytab::new("/shared", "alice");
        let same = Keytab::new("/shared", "alice");
        assert!(Arc::ptr_eq(&keytab.cache, &same.cache));
        assert!(!Arc::ptr_eq(&keytab.cache, &Keytab::new("/shared", "bob").cache));
        assert!(keytab.forget_tickets());
        assert!(!same.forget_tickets());
        assert_eq!(lock(&same.cache).generation, 1);
    }

    #[test]
    fn forgotten_tickets_are_used_again_while_no_kdc_can_be_reached() {
        let keytab = Keytab::new("/forged-refusals", "alice");
        let mut cache = lock(&keytab.cache);
        let unreachable = || Err::<(), _>(Error::new(ErrorKind::KdcUnreachable, GET_TICKET, "no answer"));
        let mut now = Instant::now();
        for _ in 0..3 {
            assert!(cache.forget_at(now));
            assert_eq!(cache.generation, 1);
            cache.settle(&unreachable());
            assert_eq!(cache.generation, 0);
            now += FORGET_INTERVAL;
        }
        // Of several generations without tickets, the last one that had some counts.
        assert!(cache.forget_at(now) && cache.forget_at(now + FORGET_INTERVAL));
        cache.settle(&unreachable());
        assert_eq!(cache.generation, 0);
        // New tickets replace the former ones for good.
        assert!(cache.forget_at(now + 2 * FORGET_INTERVAL));
        cache.settle(&Ok(()));
        cache.settle(&unreachable());
        assert_eq!(cache.generation, 1);
    }
}

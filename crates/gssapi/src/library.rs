//! The library of the system, and its functions.

use std::{error::Error as _, fmt, sync::OnceLock};

use crate::{
    error::{Error, ErrorKind},
    sys,
};

/// The names of the library: MIT's, then Heimdal's.
#[cfg(not(target_os = "macos"))]
const NAMES: &[&str] = &["libgssapi_krb5.so.2", "libgssapi.so.3"];
#[cfg(target_os = "macos")]
const NAMES: &[&str] = &[
    "/opt/homebrew/opt/krb5/lib/libgssapi_krb5.dylib",
    "/usr/local/opt/krb5/lib/libgssapi_krb5.dylib",
    "libgssapi_krb5.dylib",
];

macro_rules! functions {
    ($($name:ident: $type:ty,)*) => {
        /// The functions of the library. Those with `Option` are missing in Heimdal.
        pub(crate) struct Library {
            $(pub(crate) $name: $type,)*
            pub(crate) gss_acquire_cred_from: Option<sys::AcquireCredFrom>,
            /// Keeps the functions in memory.
            _loaded: libloading::Library,
        }

        impl Library {
            fn functions_of(loaded: libloading::Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the types are those of RFC 2744 for the functions of these names.
                    $($name: *unsafe { loaded.get::<$type>(stringify!($name)) }?,)*
                    // SAFETY: the type is that of MIT's gssapi_ext.h for the function of this name.
                    gss_acquire_cred_from: unsafe {
                        loaded.get::<sys::AcquireCredFrom>("gss_acquire_cred_from")
                    }
                    .map(|function| *function)
                    .ok(),
                    _loaded: loaded,
                })
            }
        }
    };
}

functions! {
    gss_import_name: sys::ImportName,
    gss_release_name: sys::ReleaseHandle,
    gss_acquire_cred: sys::AcquireCred,
    gss_release_cred: sys::ReleaseHandle,
    gss_init_sec_context: sys::InitSecContext,
    gss_delete_sec_context: sys::DeleteSecContext,
    gss_wrap: sys::Wrap,
    gss_unwrap: sys::Unwrap,
    gss_wrap_size_limit: sys::WrapSizeLimit,
    gss_display_status: sys::DisplayStatus,
    gss_release_buffer: sys::ReleaseBuffer,
}

impl Library {
    /// Returns the library. Loads it at the first call that finds it, and keeps it for as long as
    /// the process runs.
    pub(crate) fn get() -> Result<&'static Self, Error> {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        if let Some(library) = LIBRARY.get() {
            return Ok(library);
        }
        let loaded = Self::load(NAMES)?;
        Ok(LIBRARY.get_or_init(|| loaded))
    }

    fn load(names: &[&str]) -> Result<Self, Error> {
        let mut failures = Vec::new();
        for name in names {
            // SAFETY: the initialisers of the system's library have no requirements.
            let loaded = unsafe { libloading::Library::new(*name) };
            match loaded.and_then(Self::functions_of) {
                Ok(library) => return Ok(library),
                Err(error) => failures.push(match error.source() {
                    Some(source) => source.to_string(),
                    None => error.to_string(),
                }),
            }
        }
        Err(Error::new(
            ErrorKind::LibraryMissing,
            "cannot load the Kerberos library",
            failures.join("; "),
        ))
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_that_does_not_exist_is_an_error_with_its_names() {
        let error = Library::load(&["libnone.so.1", "libnone.so.2"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LibraryMissing);
        let text = error.to_string();
        assert!(
            text.contains("libnone.so.1") && text.contains("libnone.so.2"),
            "{text}"
        );
        assert!(error.hint().contains("install"), "{}", error.hint());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn library_without_the_functions_is_an_error() {
        let error = Library::load(&["libc.so.6"]).unwrap_err();
        assert!(error.to_string().contains("gss_import_name"), "{error}");
    }
}

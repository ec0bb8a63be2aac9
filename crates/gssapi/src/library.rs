//! The library of the system, and its functions.

use std::{error::Error as _, fmt, ops::Deref, sync::OnceLock};

use crate::{
    error::{Error, ErrorKind},
    sys,
};

/// The names of the library, and whether it is MIT's. The others are Heimdal's. The library of macOS is
/// not used: its structures have another layout.
#[cfg(not(target_os = "macos"))]
const NAMES: &[(&str, bool)] = &[("libgssapi_krb5.so.2", true), ("libgssapi.so.3", false)];
#[cfg(target_os = "macos")]
const NAMES: &[(&str, bool)] = &[
    ("/opt/homebrew/opt/krb5/lib/libgssapi_krb5.dylib", true),
    ("/usr/local/opt/krb5/lib/libgssapi_krb5.dylib", true),
];

macro_rules! functions {
    ($(#[$doc:meta])* $functions:ident { $($name:ident: $type:ty,)* }) => {
        $(#[$doc])*
        pub(crate) struct $functions {
            $(pub(crate) $name: $type,)*
        }

        impl $functions {
            fn of(loaded: &libloading::Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the types are those of the C headers for the functions of these names.
                    $($name: *unsafe { loaded.get::<$type>(stringify!($name)) }?,)*
                })
            }
        }
    };
}

functions! {
    /// The functions of GSSAPI, with the types of RFC 2744.
    Gssapi {
        gss_import_name: sys::ImportName,
        gss_display_name: sys::DisplayName,
        gss_release_name: sys::ReleaseHandle,
        gss_acquire_cred: sys::AcquireCred,
        gss_inquire_cred: sys::InquireCred,
        gss_release_cred: sys::ReleaseHandle,
        gss_init_sec_context: sys::InitSecContext,
        gss_delete_sec_context: sys::DeleteSecContext,
        gss_wrap: sys::Wrap,
        gss_unwrap: sys::Unwrap,
        gss_wrap_size_limit: sys::WrapSizeLimit,
        gss_display_status: sys::DisplayStatus,
        gss_release_buffer: sys::ReleaseBuffer,
    }
}

functions! {
    /// The functions that query a key distribution centre, with the types of MIT's krb5.h. They are in
    /// libkrb5, on which MIT's GSSAPI depends, so that they are found through it. Heimdal has
    /// functions of the same names and other types.
    Kerberos {
        krb5_init_context: sys::InitContext,
        krb5_free_context: sys::FreeContext,
        krb5_parse_name: sys::ParseName,
        krb5_free_principal: sys::FreeHandle,
        krb5_init_creds_init: sys::InitRequest,
        krb5_init_creds_set_service: sys::SetService,
        krb5_init_creds_get: sys::GetAnswer,
        krb5_init_creds_get_error: sys::GetError,
        krb5_init_creds_free: sys::FreeHandle,
        krb5_free_error: sys::FreeError,
        krb5_get_error_message: sys::GetMessage,
        krb5_free_error_message: sys::FreeMessage,
    }
}

/// The functions of the library. Those with `Option` are missing in Heimdal.
pub(crate) struct Library {
    functions: Gssapi,
    pub(crate) gss_acquire_cred_from: Option<sys::AcquireCredFrom>,
    pub(crate) kerberos: Option<Kerberos>,
    /// Keeps the functions in memory.
    _loaded: libloading::Library,
}

impl Deref for Library {
    type Target = Gssapi;

    fn deref(&self) -> &Gssapi {
        &self.functions
    }
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

    fn functions_of(loaded: libloading::Library, is_mit: bool) -> Result<Self, libloading::Error> {
        Ok(Self {
            functions: Gssapi::of(&loaded)?,
            // SAFETY: the type is that of MIT's gssapi_ext.h for the function of this name.
            gss_acquire_cred_from: unsafe { loaded.get::<sys::AcquireCredFrom>("gss_acquire_cred_from") }
                .map(|function| *function)
                .ok(),
            kerberos: if is_mit { Kerberos::of(&loaded).ok() } else { None },
            _loaded: loaded,
        })
    }

    fn load(names: &[(&str, bool)]) -> Result<Self, Error> {
        let mut failures = Vec::new();
        for (name, is_mit) in names {
            // SAFETY: the initialisers of the system's library have no requirements.
            let loaded = unsafe { libloading::Library::new(*name) };
            match loaded.and_then(|loaded| Self::functions_of(loaded, *is_mit)) {
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
        let error = Library::load(&[("libnone.so.1", true), ("libnone.so.2", false)]).unwrap_err();
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
        let error = Library::load(&[("libc.so.6", true)]).unwrap_err();
        assert!(error.to_string().contains("gss_import_name"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn key_distribution_centres_are_queried_by_mits_library_alone() {
        let name = NAMES[0].0;
        assert!(Library::load(&[(name, true)]).unwrap().kerberos.is_some());
        assert!(Library::load(&[(name, false)]).unwrap().kerberos.is_none());
    }
}

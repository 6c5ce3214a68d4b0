//! The secret of a row of the settings: written in the row, or in the variable that the row names.

use secrecy::SecretString;

use crate::app::configured::Lookup;
use settings::address::is_remote;

/// Returns the secret: of the variable, if the row names one, else as written. `None` if it is not set.
pub(crate) fn find(variable: Option<&str>, written: Option<&SecretString>, lookup: &Lookup) -> Option<SecretString> {
    variable.map_or_else(|| written.cloned(), |variable| lookup(variable))
}

/// Returns the key for an endpoint at this address; `None` if the row has no key.
///
/// # Errors
/// The variable that `env_key` names is not set, or the key could be read in transit.
pub(crate) fn key_for(
    url: &http::Uri,
    env_key: Option<&str>,
    written: Option<&SecretString>,
    lookup: &Lookup,
) -> Result<Option<SecretString>, String> {
    let key = find(env_key, written, lookup);
    if let (Some(variable), None) = (env_key, &key) {
        return Err(unset(variable));
    }
    if key.is_some() {
        check_transport(url.scheme_str().unwrap_or_default(), url.host().unwrap_or_default())?;
    }
    Ok(key)
}

/// Says that the variable which `env_key` names is not set.
pub(crate) fn unset(variable: &str) -> String {
    format!("the variable {variable} that env_key names is not set")
}

/// Checks that a key to this host cannot be read in transit.
///
/// # Errors
/// The connection is not encrypted, and the host is in another network.
pub(crate) fn check_transport(scheme: &str, host: &str) -> Result<(), String> {
    if scheme == "http" && is_remote(host) {
        return Err("its url is http to another network, where the key could be read on the way; use https".to_owned());
    }
    Ok(())
}

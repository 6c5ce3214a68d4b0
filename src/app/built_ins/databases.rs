//! The databases of `[[tools.databases]]`.

use secrecy::SecretString;

use crate::app::configured::Lookup;
use crate::app::row_secret;
use settings::data_tools::Database;
use settings::{Settings, address};

/// Returns the secrets in the addresses of databases.
pub(crate) fn secrets(settings: &Settings, lookup: &Lookup) -> Vec<SecretString> {
    let urls = settings.tools.databases.iter().filter_map(|row| url(row, lookup));
    urls.flat_map(|url| address::secrets_of_address(&url)).collect()
}

fn url(row: &Database, lookup: &Lookup) -> Option<SecretString> {
    row_secret::find(row.env_url.as_deref(), row.url.as_ref(), lookup)
}

#[cfg(not(feature = "databases"))]
mod built {
    use crate::app::configured::Lookup;
    use settings::Settings;
    use tools::BuiltInTool;

    /// Returns no tools, as this build lacks them.
    pub(crate) fn tools(settings: &Settings, _lookup: &Lookup) -> Result<Vec<Box<dyn BuiltInTool>>, Vec<String>> {
        if settings.tools.databases.is_empty() {
            return Ok(Vec::new());
        }
        Err(vec![
            "tools.databases: this program was built without databases; build it with --features databases".to_owned(),
        ])
    }
}

#[cfg(feature = "databases")]
mod built {
    use secrecy::ExposeSecret;

    use super::url;
    use crate::app::configured::Lookup;
    use settings::Settings;
    use settings::address::is_remote;
    use settings::data_tools;
    use tools::BuiltInTool;
    use tools::db_query::{self, Database, Rights};

    /// Returns the tools for the configured databases.
    ///
    /// # Errors
    /// Each mistake as a sentence with its place and fix.
    pub(crate) fn tools(settings: &Settings, lookup: &Lookup) -> Result<Vec<Box<dyn BuiltInTool>>, Vec<String>> {
        databases(settings, lookup).map(db_query::tools)
    }

    /// Returns the configured databases.
    ///
    /// # Errors
    /// See [`tools`].
    pub(crate) fn databases(settings: &Settings, lookup: &Lookup) -> Result<Vec<Database>, Vec<String>> {
        let (mut databases, mut mistakes) = (Vec::<Database>::new(), Vec::new());
        for (number, row) in settings.numbered("tools.databases", &settings.tools.databases) {
            let twice = databases.iter().any(|known| known.name() == row.name);
            match database(row, lookup) {
                Ok(_) if twice => {
                    mistakes.push(format!(
                        "tools.databases, row {number}: there is a {} already; rename one of them",
                        row.name
                    ));
                }
                Ok(database) => databases.push(database),
                Err(mistake) => mistakes.push(format!("tools.databases, row {number}: {mistake}")),
            }
        }
        if mistakes.is_empty() { Ok(databases) } else { Err(mistakes) }
    }

    fn database(row: &data_tools::Database, lookup: &Lookup) -> Result<Database, String> {
        let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        if !word(&row.name) {
            return Err("its name must be one word of letters, digits, `_` and `-`".to_owned());
        }
        let tables = || row.read.iter().chain(&row.write);
        let is_table = |table: &str| table.split('.').count() <= 2 && table.split('.').all(db_query::is_plain_name);
        if let Some(table) = tables().find(|table| !is_table(table)) {
            return Err(format!("{table:?} is no name of a table: write table, or schema.table"));
        }
        if tables().next().is_none() {
            return Err("no table may be read or changed; name some in read and write".to_owned());
        }
        let unset = || match &row.env_url {
            Some(variable) => format!("the variable {variable} that env_url names is not set"),
            None => "it has no address; set env_url to the name of the variable that holds it".to_owned(),
        };
        let url = url(row, lookup).ok_or_else(unset)?;
        let host = url.expose_secret().parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
        if host.is_some_and(|host| is_remote(&host)) {
            let fix =
                "its url leads to another network, and connections to databases are not encrypted here; use a tunnel";
            return Err(fix.to_owned());
        }
        let rights = Rights {
            name: row.name.clone(),
            reads: row.read.clone(),
            changes: row.write.clone(),
            rows: row.rows,
            timeout: row.timeout,
        };
        Database::new(rights, url.expose_secret())
    }
}

#[cfg(feature = "databases")]
pub(crate) use self::built::databases;
pub(crate) use self::built::tools;

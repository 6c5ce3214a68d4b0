//! Records the format of the stored data at the start. The store itself refuses data of a later version before each
//! first use of its backend, also after an outage (`store::resilient`).

use super::launch::StartError;
use domain::format::{self, OURS};
use domain::keys::FORMAT;
use ports::{Replaced, Store, StoreStatus, Stored, Unreadable};
use telemetry::events::CONFIG_WARNING;

/// Checks that this version reads the data of the store, and records its format if it is newer than the recorded one.
/// A store that does not answer is checked when it recovers.
///
/// # Errors
/// A sentence, if only a later version reads the data.
pub(super) async fn check(store: &dyn Store) -> Result<(), StartError> {
    let kept = store.read(FORMAT).await;
    if !matches!(store.status(), StoreStatus::Ready) {
        return Ok(());
    }
    let kept = match kept {
        Stored::Value(kept) | Stored::Part(kept) => Some(kept),
        Stored::Absent => None,
        Stored::Unreadable(Unreadable::NoAnswer) => return Ok(()),
        Stored::Unreadable(Unreadable::NotText) => Some(String::new()),
    };
    if format::examine(kept.as_deref()).map_err(|refused| StartError::Configuration(vec![refused]))? {
        record(store, kept.as_deref()).await;
    }
    Ok(())
}

async fn record(store: &dyn Store, kept: Option<&str>) {
    let Ok(ours) = serde_json::to_string(&OURS) else { return };
    if store.replace(FORMAT, kept, &ours).await == Replaced::Away {
        tracing::warn!(event = CONFIG_WARNING, key = FORMAT, "the format of the data is not recorded yet");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::testing::MemoryStore;

    async fn checked(kept: Option<&str>) -> (Result<(), StartError>, Option<String>) {
        let store = MemoryStore::new();
        if let Some(kept) = kept {
            store.put(FORMAT.to_owned(), kept);
        }
        (check(&store).await, store.get(FORMAT).await)
    }

    #[tokio::test]
    async fn data_that_only_a_later_version_reads_is_refused_and_left_as_it_is() {
        for later in [r#"{"format":3,"read_by":2}"#, "words", r#"{"format":"x"}"#] {
            let (result, kept) = checked(Some(later)).await;
            let Err(StartError::Configuration(mistakes)) = result else { panic!("{later} is read") };
            assert!(mistakes[0].contains("nothing was changed. Install the version that wrote it"), "{mistakes:?}");
            assert_eq!(kept.as_deref(), Some(later));
        }
        let (result, kept) = checked(Some(r#"{"format":2,"read_by":1,"more":true}"#)).await;
        assert!(result.is_ok() && kept.is_some_and(|kept| kept.contains("\"format\":2")));
    }

    #[tokio::test]
    async fn the_format_of_new_and_earlier_data_is_recorded() {
        let ours = serde_json::to_string(&OURS).unwrap();
        for earlier in [None, Some(r#"{"format":0,"read_by":0}"#), Some(ours.as_str())] {
            let (result, kept) = checked(earlier).await;
            assert!(result.is_ok());
            assert_eq!(kept, Some(ours.clone()));
        }
    }
}

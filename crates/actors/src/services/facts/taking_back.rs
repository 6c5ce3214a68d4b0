//! Takes back facts that could not be stored.

use super::{Bounds, FactKeeper, Named, NotKept};
use domain::fact::Fact;
use domain::ids::Person;
use domain::keys;
use ports::Write;

impl FactKeeper {
    /// Reverts a fact that could not be stored: the store would write it later, and its member was told that it is not
    /// kept.
    pub(super) async fn take_back(
        &self,
        person: &Person,
        fact: &Fact,
        before: Option<Fact>,
        bounds: &Bounds,
    ) -> Result<(), NotKept> {
        // The store holds the records of the fact in memory, so that both are one change there.
        self.store.commit(self.removal(person, fact).await?).await;
        if let Some(before) = before {
            let mut index = self.index(person).await?;
            index.put(Named::from(&before));
            let value = serde_json::to_string(&before).unwrap_or_default();
            let put = Write::Put { key: keys::facts::fact(person, &before.id), value, ttl: Some(bounds.ttl) };
            let told = self.tells(person, &before, bounds).await?;
            let writes = vec![put, self.written(person, &index), self.count(before.told, 1), told];
            let restored = {
                let (saving, deletions) = (self.forgotten.saving(), self.deletions.lock());
                let is_gone = saving.covers_person(person, before.told) || deletions.contains(&before.message);
                (!is_gone).then(|| self.store.commit(writes))
            };
            if let Some(restored) = restored {
                restored.await;
            }
        }
        Ok(())
    }
}

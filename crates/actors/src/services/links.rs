//! The links of accounts in the store. All changes are compare-and-swaps of one record, so two processes never lose a
//! link, and a code that is entered twice at once links once. Each process reads the record every second.

use async_trait::async_trait;

use crate::services::basics::Basics;
use crate::services::running::Live;
use domain::ids::Person;
use domain::keys;
use domain::open_to::OpenTo;
use domain::people::codes::{self, LinkCodes};
use domain::people::{LinkRefusal, Linked, Links};
use ports::{AccountLinks, Replaced, Store, Stored, replace};
use telemetry::events::{ACCOUNTS_LINKED, ACCOUNTS_UNLINKED, STORE_CORRUPT};

/// Reads the links. While they cannot be read, those that were read last stay in force.
pub async fn refresh(live: &Live, store: &dyn Store) {
    let text = match store.read(keys::LINKS).await {
        Stored::Absent => None,
        Stored::Value(text) | Stored::Part(text) => Some(text),
        Stored::Unreadable(_) => return,
    };
    match Links::parse(text.as_deref()) {
        Some(links) if links == *live.links() => {}
        Some(links) => live.replace_links(links),
        None => tracing::error!(event = STORE_CORRUPT, key = keys::LINKS, "the links of accounts cannot be read"),
    }
}

/// Changes links of accounts.
pub struct Linker {
    /// Configuration, store, time and randomness.
    pub basics: Basics,
}

impl Linker {
    /// Creates a code that links another account to this one.
    ///
    /// # Errors
    /// There are too many codes, or the store does not answer.
    pub async fn new_code(&self, account: &Person) -> Result<String, LinkRefusal> {
        let code = codes::new_code(|| self.basics.dice.roll());
        let (sha256, now) = (codes::hash(&code), self.basics.clock.now());
        self.with_codes(|codes| codes.add(account, sha256, now)).await?;
        Ok(code)
    }

    /// Links an account to the one to which this code was shown. The code is used up first, so it links at most once.
    ///
    /// # Errors
    /// The code is not valid, the accounts cannot be linked, or the store does not answer.
    pub async fn redeem(&self, account: &Person, code: &str) -> Result<Linked, LinkRefusal> {
        let (sha256, now) = (codes::hash(code), self.basics.clock.now());
        let shown_to = self.with_codes(|codes| codes.take(account, sha256, now)).await?;
        self.join(&shown_to, account).await
    }

    /// Removes the links of an account.
    ///
    /// # Errors
    /// The account has none, or the store does not answer.
    pub async fn remove(&self, account: &Person) -> Result<(), LinkRefusal> {
        self.with_links(|links| links.unlink(account)).await?;
        tracing::info!(event = ACCOUNTS_UNLINKED, %account, "an account is no longer linked");
        Ok(())
    }

    async fn join(&self, first: &Person, second: &Person) -> Result<Linked, LinkRefusal> {
        let linked = self.with_links(|links| links.link(first, second)).await?;
        let accounts: Vec<String> = linked.accounts().iter().map(Person::to_string).collect();
        tracing::info!(event = ACCOUNTS_LINKED, accounts = accounts.join(", "), "accounts are linked");
        Ok(linked)
    }

    /// Changes the codes. They are written also if the change is refused: a wrong code counts.
    async fn with_codes<T: Send>(
        &self,
        mut change: impl FnMut(&mut LinkCodes) -> Result<T, LinkRefusal> + Send,
    ) -> Result<T, LinkRefusal> {
        let mut outcome = Err(LinkRefusal::Away);
        let end = replace(&*self.basics.store, keys::LINK_CODES, |stored| {
            let mut codes = LinkCodes::parse(stored)?;
            outcome = change(&mut codes);
            Some(codes.to_json())
        });
        if end.await == Replaced::Done { outcome } else { Err(LinkRefusal::Away) }
    }

    /// Changes the links, and puts them into force in this process.
    async fn with_links<T: Send>(
        &self,
        mut change: impl FnMut(&mut Links) -> Result<T, LinkRefusal> + Send,
    ) -> Result<T, LinkRefusal> {
        let mut outcome = Err(LinkRefusal::Away);
        let mut changed = None;
        let end = replace(&*self.basics.store, keys::LINKS, |stored| {
            let mut links = Links::parse(stored)?;
            outcome = change(&mut links);
            outcome.as_ref().ok()?;
            let text = links.to_json();
            changed = Some(links);
            Some(text)
        });
        match (end.await, outcome) {
            (Replaced::Done, Ok(done)) => {
                self.basics.live.replace_links(changed.unwrap_or_default());
                Ok(done)
            }
            (Replaced::Done, Err(refusal)) => Err(refusal),
            (Replaced::Other | Replaced::Away, _) => Err(LinkRefusal::Away),
        }
    }
}

#[async_trait]
impl AccountLinks for Linker {
    async fn list(&self) -> Vec<Linked> {
        self.basics.live.links().people().to_vec()
    }

    async fn link(&self, first: &Person, second: &Person) -> Result<Linked, LinkRefusal> {
        if self.basics.live.now().settings.members.linking == OpenTo::Off {
            return Err(LinkRefusal::Closed);
        }
        self.join(first, second).await
    }

    async fn unlink(&self, account: &Person) -> Result<(), LinkRefusal> {
        self.remove(account).await
    }
}

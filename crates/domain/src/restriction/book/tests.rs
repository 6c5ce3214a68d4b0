use super::*;
use crate::ids::{Door, Person};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);
const AGAIN: Duration = Duration::from_secs(300);

fn member(guild: &str, person: &str) -> Member {
    Member { guild: guild.into(), person: Person::new(Door::new("test"), person) }
}

fn after(seconds: u64) -> Timestamp {
    Timestamp(NOW.0 + 1000 * seconds)
}

/// Returns a book with one restriction in force until an hour from now.
fn restricted(who: &Member) -> Restrictions {
    let mut book = Restrictions::default();
    assert!(book.breached(who, "Ada", "messages", NOW, HOUR));
    assert_eq!(book.begin(NOW), Some((who.clone(), RoleChange::Give)));
    assert_eq!(book.done(who, RoleChange::Give).unwrap().until, Some(after(3600)));
    book
}

#[test]
fn a_breach_gives_the_role_once_and_the_end_takes_it_on_time() {
    let ada = member("5", "7");
    let mut book = restricted(&ada);
    assert!(!book.breached(&ada, "Ada", "messages", after(1), HOUR), "written before the role was seen");
    assert_eq!(book.begin(after(3599)), None);
    assert_eq!(book.begin(after(3600)), Some((ada.clone(), RoleChange::Take)));
    assert_eq!(book.begin(after(3600)), None, "under way");
    assert_eq!(book.done(&ada, RoleChange::Take).unwrap().name.as_deref(), Some("Ada"));
    assert!(book.is_empty() && book.next.is_empty() && book.under_way() == 0);
}

#[test]
fn who_lost_the_role_early_and_breaks_the_limit_again_gets_it_again() {
    let ada = member("5", "7");
    let mut book = restricted(&ada);
    assert!(book.breached(&ada, "Ada", "messages", after(600), HOUR));
    assert_eq!(book.begin(after(600)), Some((ada.clone(), RoleChange::Give)));
    assert_eq!(book.told(&ada).unwrap().until, Some(after(4200)));
}

#[test]
fn without_a_duration_the_role_is_given_and_forgotten() {
    let (ada, mut book) = (member("5", "7"), Restrictions::default());
    assert!(book.breached(&ada, "Ada", "messages", NOW, Duration::ZERO));
    assert_eq!(book.begin(NOW), Some((ada.clone(), RoleChange::Give)));
    assert_eq!(book.done(&ada, RoleChange::Give).unwrap().until, None);
    assert!(book.is_empty() && book.begin(after(1_000_000)).is_none());
}

#[test]
fn what_is_refused_is_kept_and_tried_again_once_for_the_whole_community() {
    let (ada, ben, other) = (member("5", "7"), member("5", "8"), member("6", "7"));
    let records = [(ada.clone(), NOW), (ben.clone(), NOW), (other.clone(), after(1))].into();
    let mut book = Restrictions::default();
    book.take_over(&records, &HashSet::new(), NOW, true);
    assert_eq!(book.begin(after(2)), Some((ada.clone(), RoleChange::Take)));
    assert_eq!(book.begin(after(2)), Some((other.clone(), RoleChange::Take)), "another community does not wait");
    assert_eq!(book.begin(after(2)), None);
    book.failed(&ada, after(2), AGAIN, true);
    book.done(&other, RoleChange::Take);
    assert_eq!(book.begin(after(301)), None);
    assert_eq!(book.begin(after(302)), Some((ada.clone(), RoleChange::Take)));
    book.failed(&ada, after(302), AGAIN, false);
    assert_eq!(book.begin(after(302)), Some((ben, RoleChange::Take)), "a failure of one is not one of all");
    assert_eq!(book.len(), 2);
}

#[test]
fn a_role_that_may_not_have_been_given_is_given_unless_it_is_too_late() {
    let (ada, ben, chloe) = (member("5", "7"), member("6", "8"), member("7", "9"));
    let records = [(ada.clone(), after(100)), (ben.clone(), NOW)].into();
    let unsure = [ada.clone(), ben.clone(), chloe.clone()].into();
    let mut book = Restrictions::default();
    book.take_over(&records, &unsure, NOW, true);
    let mut begun: Vec<_> = std::iter::from_fn(|| book.begin(after(1))).collect();
    begun.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(begun, [(ada, RoleChange::Give), (ben, RoleChange::Take), (chloe, RoleChange::Give)]);
}

#[test]
fn records_of_others_are_taken_over_and_what_they_ended_is_crossed_out() {
    let (ada, ben, new) = (member("5", "7"), member("5", "8"), member("6", "9"));
    let mut book = Restrictions::default();
    let records = [(ada.clone(), after(100)), (ben.clone(), after(100))].into();
    book.take_over(&records, &HashSet::new(), NOW, true);
    book.breached(&new, "Ada", "messages", after(11), HOUR);
    let later = [(ada.clone(), after(50))].into();
    book.take_over(&later, &HashSet::new(), after(10), false);
    assert_eq!(book.len(), 3, "an incomplete reading crosses nothing out");
    book.take_over(&later, &HashSet::new(), after(10), true);
    assert_eq!(book.len(), 2, "what began meanwhile stays");
    assert_eq!(book.told(&ada).unwrap().until, Some(after(50)));
    assert!(book.told(&ben).is_none());
}

#[test]
fn what_ended_while_records_were_read_does_not_come_back() {
    let ada = member("5", "7");
    let records: HashMap<Member, Timestamp> = [(ada.clone(), NOW)].into();
    let mut book = Restrictions::default();
    book.take_over(&records, &HashSet::new(), NOW, true);
    assert_eq!(book.begin(after(1)), Some((ada.clone(), RoleChange::Take)));
    book.done(&ada, RoleChange::Take);
    book.take_over(&records, &HashSet::new(), NOW, true);
    assert!(book.is_empty());
    book.take_over(&records, &HashSet::new(), after(5), true);
    assert_eq!(book.len(), 1, "a record that is still there then is a record");
}

#[test]
fn ten_thousand_ends_at_once_are_gone_through() {
    let mut book = Restrictions::default();
    let records = (0..10_000).map(|number| (member("5", &number.to_string()), NOW)).collect();
    book.take_over(&records, &HashSet::new(), NOW, true);
    let mut many = 0;
    while let Some((member, change)) = book.begin(NOW) {
        book.done(&member, change);
        many += 1;
    }
    assert_eq!((many, book.len()), (10_000, 0));
}

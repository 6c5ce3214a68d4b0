use super::*;
use crate::ids::{Door, MessageId};
use crate::menu::{Offer, specs};

fn caller(id: &str, roles: &[&str]) -> Caller {
    Caller {
        person: Person::new(Door::new("discord"), id),
        name: "Ada".to_owned(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        locale: None,
        operator: false,
    }
}

const SERVED: Served = Served { tools: true, questions: true, links: true, voice: true };

#[test]
fn operators_hold_a_super_role_or_are_named() {
    let (super_roles, accounts) = (["2".to_owned()].into(), ["9".to_owned()].into());
    let operators = Operators { super_roles: &super_roles, accounts: &accounts };
    for kind in CommandKind::ALL {
        let everybody = kind.access() == Access::Everybody;
        assert_eq!(kind.may_be_run_by(&caller("7", &["1"]), operators), everybody, "{kind:?}");
        assert!(kind.may_be_run_by(&caller("7", &["1", "2"]), operators), "{kind:?}");
        assert!(kind.may_be_run_by(&caller("9", &[]), operators), "{kind:?}");
    }
}

#[test]
fn names_are_what_platforms_take_and_lead_back() {
    for kind in CommandKind::ALL {
        assert_eq!(CommandKind::named(kind.name()), Some(kind));
        assert!(kind.name().chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    }
    assert_eq!(CommandKind::named("Status"), None);
}

#[test]
fn commands_of_operators_are_hidden_only_where_nobody_else_could_run_them() {
    let all = Offer { operators: true, super_roles: false, served: SERVED, direct: true };
    let hidden = |offer| specs(offer).into_iter().filter(|spec| spec.administrators).count();
    assert_eq!(hidden(all), 3);
    assert_eq!(hidden(Offer { super_roles: true, ..all }), 0);
    for spec in specs(all) {
        let option = spec.option.iter().flat_map(|option| option.descriptions);
        for (locale, text) in spec.descriptions.into_iter().chain(option) {
            assert!((1..=100).contains(&text.chars().count()), "{} in {locale:?}", spec.name);
        }
        assert!(spec.direct);
    }
}

#[test]
fn what_nothing_serves_is_not_offered() {
    let names = |offer| specs(offer).iter().map(|spec| spec.name).collect::<Vec<_>>();
    let bare = Offer { operators: false, super_roles: false, served: Served::default(), direct: false };
    assert_eq!(names(bare), ["help", "new", "model", "settings", "usage", "forget", "export", "remember", "memories"]);
    let operated = Offer { operators: true, ..bare };
    assert_eq!(names(operated)[9..], ["status", "refresh_status"]);
    assert_eq!(names(Offer { served: SERVED, ..operated }).len(), CommandKind::ALL.len());
}

#[test]
fn a_token_never_shows() {
    let callback = Callback {
        id: MessageId::new(Door::new("discord"), "1"),
        application: "5".to_owned(),
        token: CallbackToken::new("very-secret".to_owned()),
    };
    assert!(!format!("{callback:?}").contains("very-secret"));
}

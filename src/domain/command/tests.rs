use super::*;
use crate::domain::ids::Door;

fn caller(roles: &[&str], administrator: bool) -> Caller {
    Caller {
        person: Person::new(Door::new("discord"), "7"),
        name: "Ada".to_owned(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        administrator,
        locale: None,
    }
}

#[test]
fn operators_hold_a_super_role_or_administer_the_community() {
    for kind in CommandKind::ALL {
        let everybody = kind.access() == Access::Everybody;
        assert_eq!(may_run(kind, &caller(&["1"], false), &["2".to_owned()]), everybody, "{kind:?}");
        assert!(may_run(kind, &caller(&["1", "2"], false), &["2".to_owned()]), "{kind:?}");
        assert!(may_run(kind, &caller(&[], true), &[]), "{kind:?}");
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
    let hidden = |specs: Vec<Spec>| specs.into_iter().filter(|spec| spec.administrators).count();
    assert_eq!(hidden(specs(&[], false)), 2);
    assert_eq!(hidden(specs(&["9".to_owned()], false)), 0);
    for spec in specs(&[], true) {
        let option = spec.option.iter().flat_map(|option| option.descriptions);
        for (locale, text) in spec.descriptions.into_iter().chain(option) {
            assert!((1..=100).contains(&text.chars().count()), "{} in {locale:?}", spec.name);
        }
        assert!(spec.direct);
    }
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

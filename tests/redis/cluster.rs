//! A cluster of two servers.

use std::time::Duration;

use ports::{Limiter, Store, Write};

use crate::server::Server;
use crate::support::{put, recovered, row, soon, store, until};

pub(crate) const OPTIONS: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"];

async fn cluster() -> [Server; 2] {
    let nodes = [Server::start_with(&OPTIONS), Server::start_with(&OPTIONS)];
    let () = nodes[0].ask("CLUSTER ADDSLOTSRANGE 0 8191");
    let () = nodes[1].ask("CLUSTER ADDSLOTSRANGE 8192 16383");
    let () = nodes[0].ask(&format!("CLUSTER MEET 127.0.0.1 {}", nodes[1].address().port()));
    let whole = |node: &Server| {
        let told = node.ask::<String>("CLUSTER INFO");
        told.contains("cluster_state:ok") && told.contains("cluster_known_nodes:2")
    };
    until("the cluster is whole", || nodes.iter().all(whole)).await;
    nodes
}

#[tokio::test]
async fn keys_are_spread_over_all_servers() {
    let nodes = cluster().await;
    let store = store(&format!("redis-cluster://{},{}", nodes[0].address(), nodes[1].address())).await;
    let keys: Vec<String> = (0..300).map(|n| format!("k{n:03}")).collect();
    let mut writes: Vec<_> = keys.iter().map(|key| put(key, "v")).collect();
    writes.extend([put("x", "1"), Write::Delete { key: "x".into() }, put("y", "1"), put("y", "2")]);
    assert!(soon(store.write(writes)).await);
    let each = nodes.each_ref().map(|node| node.ask::<i64>("DBSIZE"));
    assert!(each[0] + each[1] == 301 && each[0] > 0 && each[1] > 0, "{each:?}");
    let wanted: Vec<_> = keys.iter().map(|key| row(key, "v")).collect();
    assert_eq!(soon(store.scan("k", 1_000)).await.part(), wanted);
    assert_eq!(soon(store.scan("k", 20)).await.part(), wanted[..20]);
    assert_eq!((soon(store.get("x")).await, soon(store.get("y")).await.as_deref()), (None, Some("2")));
    store.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_server_that_dies_and_comes_back() {
    let mut nodes = cluster().await;
    let store = store(&format!("redis-cluster://{}", nodes[0].address())).await;
    let keys: Vec<String> = (0..50).map(|n| format!("k{n:02}")).collect();
    assert!(soon(store.write(keys.iter().map(|key| put(key, "1")).collect())).await);
    nodes[1].kill();
    assert!(!soon(store.write(keys.iter().map(|key| put(key, "2")).collect())).await);
    assert_eq!(soon(store.get("k07")).await.as_deref(), Some("2"));
    nodes[1].restart();
    recovered(&store).await;
    assert!(soon(store.write(vec![put("last", "3")])).await);
    let wanted: Vec<_> = keys.iter().map(|key| row(key, "2")).collect();
    assert_eq!(soon(store.scan("k", 1_000)).await.part(), wanted);
}

#[tokio::test]
async fn both_lists_of_a_limit_are_on_one_server() {
    use domain::ids::{Door, TurnId};
    use domain::limits::{Decision, LimitStep, Limits, Member, Request, Reservation};
    let nodes = cluster().await;
    let store = store(&format!("redis-cluster://{},{}", nodes[0].address(), nodes[1].address())).await;
    for number in 0..40 {
        let member = Member::new(format!("5:{number}"));
        let window = Duration::from_secs(60);
        let limits = Limits { messages: 1, tokens: 100 };
        let mut admitted = Vec::new();
        for turn in ["a", "b"] {
            let turn = TurnId::new(Door::new("d"), turn);
            let ask = Reservation { turn, tokens: 5, lease: window, limits, exempt: false };
            let request = Request::of_member(member.clone(), window, LimitStep::Reserve(ask));
            admitted.push(soon(store.step(request)).await == Decision::Admitted);
        }
        assert_eq!(admitted, [true, false]);
    }
    let each = nodes.each_ref().map(|node| node.ask::<i64>("DBSIZE"));
    // The two lists and their sums, per member.
    assert!(each[0] + each[1] == 120 && each[0] > 0 && each[1] > 0, "{each:?}");
}

/// The accounts of a member, of a budget and of a person with linked accounts are on different servers.
#[tokio::test]
async fn a_step_on_accounts_of_several_servers_counts_everywhere_or_nowhere() {
    use domain::ids::{Door, TurnId};
    use domain::limits::account::{Account, Scope, Share};
    use domain::limits::{Cost, Decision, LimitStep, Limits, Member, Request, Reservation};
    let nodes = cluster().await;
    let store = store(&format!("redis-cluster://{},{}", nodes[0].address(), nodes[1].address())).await;
    let window = Duration::from_secs(60);
    let share = |community: &str, id: &str, limit: u64| {
        let (scope, cost) = (Scope::Member, Cost::Messages);
        let account = Account { scope, cost, window, community: community.into(), id: id.into() };
        Share { account, limit, amount: Some(1) }
    };
    for number in 0..20 {
        let person = format!("discord:{number}");
        let mut turns = 0;
        let mut asks = async |shares: Vec<Share>, member: bool| {
            turns += 1;
            let turn = TurnId::new(Door::new("d"), turns.to_string());
            let limits = Limits { messages: 9, tokens: 1_000 };
            let ask = Reservation { turn, tokens: 5, lease: window, limits, exempt: false };
            let member = member.then(|| Member::new(format!("5:{number}")));
            let request = Request { member, window, step: LimitStep::Reserve(ask), shares };
            match soon(store.step(request)).await {
                Decision::Refused(refusal) => Some(refusal.account.map(|account| account.place)),
                Decision::Admitted => None,
                other => panic!("{other:?}"),
            }
        };
        let all =
            || vec![share("5", &person, 3), share(&format!("c{number}"), &person, 4), share("%people", &person, 2)];
        assert_eq!([asks(all(), true).await, asks(all(), true).await], [None, None]);
        assert_eq!(asks(all(), true).await, Some(Some(2)), "the third account is full");
        // What the refused step reserved in the first two accounts was reverted.
        let first = || vec![share("5", &person, 3)];
        assert_eq!([asks(first(), false).await, asks(first(), true).await], [None, Some(Some(0))]);
        let two = || vec![share(&format!("c{number}"), &person, 4), share("%people", &person, 9)];
        assert_eq!([asks(two(), false).await, asks(two(), false).await], [None, None]);
        assert_eq!(asks(two(), false).await, Some(Some(0)));
    }
}

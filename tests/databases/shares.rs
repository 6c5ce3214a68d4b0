//! Statements of one member leave permits for others.

use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;

use crate::support::Shop;

const COUNT: &str = "SELECT count(*) AS n FROM orders";
const THREE: &str = "| n |\n| --- |\n| 3 |\n\n1 row.";
/// More time than the database gives a statement.
const AMPLE: Duration = Duration::from_secs(10);

/// Returns this many orders in a `FROM`, each with a name of its own.
fn orders(many: usize) -> String {
    (0..many).map(|n| format!("orders AS o{n}")).collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn slow_statements_of_one_member_leave_permits_for_others_on_sqlite() {
    leave_permits(&Shop::sqlite().await).await;
}

#[tokio::test]
async fn slow_statements_of_one_member_leave_permits_for_others_on_postgres() {
    leave_permits(&Shop::postgres().await.patient()).await;
}

#[tokio::test]
async fn slow_statements_of_one_member_leave_permits_for_others_on_mariadb() {
    leave_permits(&Shop::mariadb().await.patient()).await;
}

async fn leave_permits(shop: &Shop) {
    // More statements than permits, none of which ends.
    let many = std::thread::available_parallelism().map_or(1, usize::from).max(8);
    let endless = format!("SELECT count(*) AS n FROM {}", orders(24));
    let slow = join_all((0..many).map(|_| shop.asked_by("1", AMPLE, &endless)));
    let last = Mutex::new(String::new());
    let others = async {
        let short = Duration::from_millis(150);
        loop {
            let (text, is_error) = shop.asked_by("1", short, COUNT).await;
            if is_error && text.contains("too many statements") {
                break;
            }
            *last.lock() = text;
            // Permits have no order: a slow statement takes this one now.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for member in ["2", "3"] {
            // The slow statements run longer.
            let soon = Duration::from_secs(1);
            assert_eq!(shop.asked_by(member, soon, COUNT).await, (THREE.to_owned(), false), "{}", shop.kind);
        }
    };
    tokio::select! {
        () = others => {}
        slow = slow => panic!("{}: {slow:?}, while others got {:?}", shop.kind, last.lock()),
    }
}

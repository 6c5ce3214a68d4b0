//! Servers that people really use.

use serde_json::json;
use staffai::domain::tool::CallErrorKind;

use crate::support::{call, connect, names, node, python, stdio, text};

#[tokio::test]
async fn everything_over_stdio() {
    let everything = node("@modelcontextprotocol/server-everything/dist/index.js");
    let server = connect(&stdio("node", &[&everything, "stdio"])).await;
    println!("everything: {:?}", server.info());
    let names = names(&server).await;
    assert!(names.iter().any(|name| name == "echo") && names.iter().any(|name| name == "read_resource"), "{names:?}");
    assert!(text(&server, "echo", json!({"message": "hi"})).await.contains("hi"));
    let refused = call(&server, "no_such_tool", json!({})).await;
    assert!(refused.is_err() || refused.unwrap().is_error);
    server.ping().await.unwrap();
    server.close().await;
}

#[tokio::test]
async fn the_clock_from_pypi() {
    let server = connect(&stdio(&python("mcp-server-time"), &[])).await;
    println!("time: {:?}", server.info());
    assert_eq!(names(&server).await[..2], ["get_current_time", "convert_time"]);
    let now = text(&server, "get_current_time", json!({"timezone": "Asia/Tokyo"})).await;
    assert!(now.contains("+09:00"), "{now}");
    server.ping().await.unwrap();
    let wrong = call(&server, "get_current_time", json!({"timezone": "Nowhere/Land"})).await;
    assert!(
        wrong.as_ref().is_ok_and(|result| result.is_error)
            || matches!(&wrong, Err(error) if error.kind == CallErrorKind::InvalidArguments),
        "{wrong:?}"
    );
    server.close().await;
}

#[tokio::test]
async fn the_file_system_stays_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "inside").unwrap();
    let module = node("@modelcontextprotocol/server-filesystem/dist/index.js");
    let server = connect(&stdio("node", &[&module, folder.path().to_str().unwrap()])).await;
    let path = folder.path().join("note.txt");
    assert_eq!(text(&server, "read_text_file", json!({"path": path})).await.trim(), "inside");
    let outside = call(&server, "read_text_file", json!({"path": "/etc/hostname"})).await.unwrap();
    assert!(outside.is_error, "{outside:?}");
    server.close().await;
}

//! Calls of the service over TCP.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use incarnate::Limits;
use tokio::net::TcpListener;
use tokio::task;

use crate::{Service, load, router};

/// A seven, a row of the test images of scikit-learn's digits, and a blank image.
const SEVEN: &str = include_str!("../seven.json");

/// Serves one request at a time.
async fn start(wait: Duration, limits: Limits) -> (&'static Service, SocketAddr) {
    let service = load([1, 1], wait, limits).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    task::spawn(axum::serve(listener, router(service)).into_future());
    (service, address)
}

/// Returns the status and the body of an answer.
async fn post(address: SocketAddr, body: &'static str) -> (String, String) {
    let exchange = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "POST /classify HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-type: application/json";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
    };
    task::spawn_blocking(exchange).await.unwrap()
}

#[tokio::test]
async fn digits_are_classified() {
    let (_service, address) = start(Duration::MAX, Limits::default()).await;
    assert_eq!(post(address, SEVEN).await, ("200".to_owned(), "[7]".to_owned()));
    assert_eq!(post(address, "[]").await, ("200".to_owned(), "[]".to_owned()));
    assert_eq!(post(address, "[[1.0]]").await.0, "400");
    assert_eq!(post(address, "no JSON").await.0, "400");
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let (service, address) = start(Duration::MAX, Limits::default()).await;
    let permit = service.accepted.acquire().await.unwrap();
    assert_eq!(post(address, SEVEN).await.0, "503");
    drop(permit);
    assert_eq!(post(address, SEVEN).await.0, "200");
}

#[tokio::test]
async fn a_request_waits_no_longer_than_it_may() {
    let (service, address) = start(Duration::ZERO, Limits::default()).await;
    let permit = service.running.acquire().await.unwrap();
    assert_eq!(post(address, SEVEN).await, ("504".to_owned(), "waited too long".to_owned()));
    drop(permit);
    assert_eq!(post(address, SEVEN).await.0, "200");
}

#[tokio::test]
async fn a_call_uses_no_more_than_it_may() {
    // Loading the model takes some 3,000 steps, a call of it more than 100,000.
    let limits = Limits { fuel: Some(20_000), ..Limits::default() };
    let (_service, address) = start(Duration::MAX, limits).await;
    let (status, body) = post(address, SEVEN).await;
    assert!(status == "504" && body.contains("RESOURCE_EXHAUSTED"), "{status} {body}");
}

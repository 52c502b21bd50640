//! Serves a model by HTTP:
//!
//! ```console
//! $ cargo run --release
//! $ curl -s localhost:8080/classify -H 'content-type: application/json' -d @seven.json
//! [7]
//! ```

mod service;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use incarnate::Limits;
use service::{Bounds, Service, router};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let running = thread::available_parallelism()?.get();
    // A request is answered within a second: 700 ms in the queue and 300 ms in the model.
    let limits = Limits { timeout: Some(Duration::from_millis(300)), ..Limits::default() };
    let bounds = Bounds { running, accepted: 16 * running, wait: Duration::from_millis(700), limits };
    let service = Arc::new(Service::load(bounds)?);
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    println!("listening on {}", listener.local_addr()?);
    Ok(axum::serve(listener, router(service)).await?)
}

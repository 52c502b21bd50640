//! Serves a model by HTTP: `POST /classify` takes images of handwritten digits as JSON, rows of 64 numbers from 0 to 16, and
//! returns the digits.

#[cfg(test)]
mod tests;

use std::{error, thread, time::Duration};

use axum::{Json, Router, extract::DefaultBodyLimit, extract::State, http::StatusCode, routing::post};
use incarnate::{Error, Limits, Session, StatusCode as Code, Tensor};
use tokio::{net::TcpListener, sync::Semaphore, task, time};

const MODEL: &[u8] = include_bytes!("../../../tests/models/digits/vmvx.vmfb");

struct Service {
    session: Session,
    /// A permit for each request that is accepted, one for each that runs, and the longest wait for the second one.
    accepted: Semaphore,
    running: Semaphore,
    wait: Duration,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn error::Error>> {
    let cores = thread::available_parallelism()?.get();
    // A request is answered within a second: 700 ms in the queue and 300 ms in the model.
    let limits = Limits { timeout: Some(Duration::from_millis(300)), ..Limits::default() };
    let service = load([16 * cores, cores], Duration::from_millis(700), limits)?;
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    println!("listening on {}", listener.local_addr()?);
    Ok(axum::serve(listener, router(service)).await?)
}

fn load(permits: [usize; 2], wait: Duration, limits: Limits) -> incarnate::Result<&'static Service> {
    let session = Session::builder().device("local-sync").limits(limits).module_static(MODEL).build()?;
    let [accepted, running] = permits.map(Semaphore::new);
    Ok(Box::leak(Box::new(Service { session, accepted, running, wait })))
}

fn router(service: &'static Service) -> Router {
    Router::new().route("/classify", post(classify)).layer(DefaultBodyLimit::max(256 << 10)).with_state(service)
}

async fn classify(
    State(service): State<&'static Service>,
    Json(rows): Json<Vec<Vec<f32>>>,
) -> Result<Json<Vec<i32>>, (StatusCode, String)> {
    let refused = |code, reason: &str| (code, reason.to_owned());
    if rows.len() > 360 || rows.iter().any(|row| row.len() != 64) {
        return Err(refused(StatusCode::BAD_REQUEST, "at most 360 rows of 64 numbers"));
    }
    let accepted = service.accepted.try_acquire();
    let accepted = accepted.map_err(|_| refused(StatusCode::SERVICE_UNAVAILABLE, "the queue is full"))?;
    let running = time::timeout(service.wait, service.running.acquire()).await;
    let running = running.map_err(|_| refused(StatusCode::GATEWAY_TIMEOUT, "waited too long"))?;
    // The call holds both permits until it ends, also where its client has gone.
    let call = task::spawn_blocking(move || (digits(&service.session, &rows), accepted, running).0);
    let result = call.await.unwrap_or_else(|panic| Err(Error::internal(panic.to_string())));
    result.map(Json).map_err(|error| match error.code() {
        Code::DeadlineExceeded | Code::ResourceExhausted => (StatusCode::GATEWAY_TIMEOUT, error.to_string()),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    })
}

/// Returns the digits of images; the model takes 360 at a time.
fn digits(session: &Session, rows: &[Vec<f32>]) -> incarnate::Result<Vec<i32>> {
    let mut pixels = rows.concat();
    pixels.resize(360 * 64, 0.0);
    let images = Tensor::new(session, &[360, 64], &pixels)?;
    let (_scores, digits): (Tensor<f32>, Tensor<i32>) = session.function("classify")?.call((&images,))?;
    Ok(digits.to_vec()?[..rows.len()].to_vec())
}

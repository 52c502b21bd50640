//! `POST /classify` takes images of handwritten digits as JSON, rows of 64 numbers from 0 to 16, and returns the digits.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::{Json, Router, routing::post};
use incarnate::{Function, Limits, Result, Session, StatusCode as Code, Tensor};
use tokio::sync::Semaphore;
use tokio::{task, time};

/// The model: 360 images at a time.
const MODEL: &[u8] = include_bytes!("../../../tests/models/digits/vmvx.vmfb");
const IMAGES: usize = 360;
/// Pixels of an image.
const PIXELS: usize = 64;
/// Bytes of a request's body.
const BODY: usize = 256 << 10;

/// What bounds the service.
pub struct Bounds {
    /// Calls of the model at a time.
    pub running: usize,
    /// Requests that run or wait. Those beyond it are refused at once, so that clients slow down.
    pub accepted: usize,
    /// The longest time that a request waits.
    pub wait: Duration,
    /// What a call may use, among others its time.
    pub limits: Limits,
}

/// The model and its bounds.
pub struct Service {
    session: Session,
    classify: Function,
    wait: Duration,
    /// A permit for each request that is accepted, and one for each that runs.
    pub accepted: Arc<Semaphore>,
    pub running: Arc<Semaphore>,
}

impl Service {
    /// Loads the model.
    pub fn load(bounds: Bounds) -> Result<Service> {
        let session = Session::builder().device("local-sync").limits(bounds.limits).module_static(MODEL).build()?;
        let classify = session.function("classify")?;
        let [accepted, running] = [bounds.accepted, bounds.running].map(|permits| Arc::new(Semaphore::new(permits)));
        Ok(Service { session, classify, wait: bounds.wait, accepted, running })
    }

    fn call(&self, pixels: &[f32]) -> Result<Vec<i32>> {
        let images = Tensor::new(&self.session, &[IMAGES as u64, PIXELS as u64], pixels)?;
        let (_scores, digits): (Tensor<f32>, Tensor<i32>) = self.classify.call((&images,))?;
        digits.to_vec()
    }
}

/// Returns the routes of a service.
pub fn router(service: Arc<Service>) -> Router {
    Router::new().route("/classify", post(classify)).layer(DefaultBodyLimit::max(BODY)).with_state(service)
}

type Failure = (StatusCode, String);

async fn classify(
    State(service): State<Arc<Service>>,
    Json(rows): Json<Vec<Vec<f32>>>,
) -> Result<Json<Vec<i32>>, Failure> {
    if rows.len() > IMAGES || rows.iter().any(|row| row.len() != PIXELS) {
        return Err((StatusCode::BAD_REQUEST, format!("at most {IMAGES} rows of {PIXELS} numbers")));
    }
    let full = |_| (StatusCode::SERVICE_UNAVAILABLE, "the queue is full".to_owned());
    let late = |_| (StatusCode::GATEWAY_TIMEOUT, "waited too long".to_owned());
    let internal = |error: String| (StatusCode::INTERNAL_SERVER_ERROR, error);
    let accepted = service.accepted.clone().try_acquire_owned().map_err(full)?;
    let running = time::timeout(service.wait, service.running.clone().acquire_owned()).await.map_err(late)?;
    let count = rows.len();
    let mut pixels = rows.concat();
    pixels.resize(IMAGES * PIXELS, 0.0);
    // The call holds both permits until it ends, also where its client has gone.
    let call = task::spawn_blocking(move || {
        let _permits = (accepted, running);
        service.call(&pixels)
    });
    let mut digits = call.await.map_err(|error| internal(error.to_string()))?.map_err(|error| match error.code() {
        Code::DeadlineExceeded | Code::ResourceExhausted => (StatusCode::GATEWAY_TIMEOUT, error.to_string()),
        _ => internal(error.to_string()),
    })?;
    digits.truncate(count);
    Ok(Json(digits))
}

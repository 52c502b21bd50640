//! Errors in the form that clients of OpenAI's interface expect.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use incarnate_runtime::{Error, StatusCode as Code};
use serde_json::{Value, json};

/// An error of a request.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
    /// The field of the request that is wrong.
    param: Option<&'static str>,
}

impl ApiError {
    /// The request cannot be answered as it is.
    pub(super) fn invalid(param: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status: StatusCode::BAD_REQUEST, message: message.into(), param: Some(param) }
    }

    pub(super) fn not_found(message: impl Into<String>) -> ApiError {
        ApiError { status: StatusCode::NOT_FOUND, message: message.into(), param: None }
    }

    /// The queue is full.
    pub(super) fn busy() -> ApiError {
        let message = "all conversations are in use and the queue is full: try again later".to_owned();
        ApiError { status: StatusCode::TOO_MANY_REQUESTS, message, param: None }
    }

    /// The server ends.
    pub(super) fn ending() -> ApiError {
        ApiError { status: StatusCode::SERVICE_UNAVAILABLE, message: "the server ends".to_owned(), param: None }
    }

    pub(super) fn body(&self) -> Value {
        let kind = if self.status.is_server_error() { "server_error" } else { "invalid_request_error" };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": null}})
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        let status = match error.code() {
            Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => StatusCode::BAD_REQUEST,
            Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        ApiError { status, message: error.to_string(), param: None }
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> ApiError {
        let status = match rejection {
            // OpenAI's servers do not tell such a request from others that are wrong.
            JsonRejection::JsonDataError(_) => StatusCode::BAD_REQUEST,
            _ => rejection.status(),
        };
        ApiError { status, message: rejection.body_text(), param: None }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body())).into_response()
    }
}

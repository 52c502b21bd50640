//! A language model behind the HTTP interface of OpenAI's: `incarnate serve`, and the command `serve` of the programs that it builds.

#[cfg(feature = "serve")]
mod api_error;
#[cfg(feature = "serve")]
mod embeddings;
#[cfg(feature = "serve")]
mod events;
#[cfg(feature = "serve")]
mod metrics;
mod options;
#[cfg(feature = "serve")]
mod requests;
#[cfg(feature = "serve")]
mod responses;
#[cfg(feature = "serve")]
mod routes;
#[cfg(feature = "serve")]
mod scheduler;
#[cfg(feature = "serve")]
pub(super) mod server;
#[cfg(all(test, feature = "serve"))]
mod tests;
#[cfg(feature = "serve")]
mod token_texts;

pub(super) use options::ServeOptions;

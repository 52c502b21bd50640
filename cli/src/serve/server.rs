//! The command `serve` of a program with a language model.

use std::future::Future;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;
use std::time::{SystemTime, UNIX_EPOCH};

use incarnate_runtime::{Error, Result, ResultExt as _, StatusCode};
use incarnate_text::{ChatTemplate, LanguageModel, Tokenizer};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::ServeOptions;
use super::routes::{Service, router};
use super::scheduler;
use crate::Verdict;
use crate::chat::OfModel;
use crate::chat::model::ModuleModel;
use crate::chat::source::ModelSource;
use crate::console::Console;
use crate::program::AddModules;

/// What a server needs of a model's file.
pub(super) struct Texts {
    pub(super) tokenizer: Tokenizer,
    pub(super) template: Option<ChatTemplate>,
}

pub(crate) fn serve(
    arguments: &OfModel<ServeOptions>,
    add_modules: AddModules<'_>,
    out: &mut Console,
) -> Result<Verdict> {
    let OfModel { model, options } = arguments;
    let source = ModelSource::find(model.as_deref())?;
    let (text, path) = (source.text()?, source.path());
    let context = || format!("'{}'", path.display());
    let tokenizer = text.tokenizer().context(context)?;
    let template = match text.template() {
        Err(error) if error.code() == StatusCode::NotFound => None,
        template => Some(template.context(context)?),
    };
    let model = ModuleModel::load(&source, &options.device.uri, add_modules)?;
    let name = options.name.clone().unwrap_or_else(|| source.name());
    // One thread serves all clients: the model has the others.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context(|| "starting the server")?;
    runtime.block_on(async {
        let listening = || format!("listening on {}", options.listen);
        let listener = TcpListener::bind(options.listen).await.context(listening)?;
        let address = listener.local_addr().context(listening)?;
        let (slots, positions) = (model.slots(), model.context());
        writeln!(out, "'{name}' at http://{address}/v1: {slots} conversations at a time, of {positions} tokens")
            .and_then(|()| out.flush())
            .context(|| "writing to standard output")?;
        answer(listener, model, Texts { tokenizer, template }, (name, options.queue), interrupt()).await
    })?;
    Ok(Verdict::Success)
}

/// Answers the clients of a listener until `end` is done and those that are connected have their answers.
pub(super) async fn answer(
    listener: TcpListener,
    model: impl LanguageModel + Send + 'static,
    texts: Texts,
    (name, queue): (String, usize),
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let Texts { tokenizer, template } = texts;
    let (jobs, receiver) = sync_channel(queue);
    let (tokenizer, metrics) = (Arc::new(tokenizer), Arc::default());
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let service = Service {
        jobs,
        tokenizer: Arc::clone(&tokenizer),
        template,
        constraints: Mutex::default(),
        model: name,
        context: model.context(),
        has_embeddings: model.pooling().is_some(),
        metrics: Arc::clone(&metrics),
        created,
        count: AtomicU64::new(0),
    };
    let thread =
        scheduler::start(model, tokenizer, receiver, metrics).context(|| "starting the thread of the model")?;
    let served = axum::serve(listener, router(Arc::new(service))).with_graceful_shutdown(end).await;
    // The service is gone, and with it the sender of jobs: the thread ends.
    let ended = tokio::task::spawn_blocking(move || thread.join().is_ok()).await;
    served.context(|| "serving")?;
    match ended {
        Ok(true) => Ok(()),
        _ => Err(Error::internal("the thread of the model panicked")),
    }
}

/// Ends with a signal that asks the program to end.
async fn interrupt() {
    // Without a handler the signal ends the program at once.
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupted => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    let _ = interrupted.await;
}

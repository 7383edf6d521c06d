//! Kubernetes Events: sent with the best effort, within a rate, and never waited for.
//!
//! The first of a kind of news matter to people, the thousandth does not; the API server has better things to do.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::mpsc, time::Instant};
use whalezen_dialects::write::Note;

use crate::{limiter::Limiter, metrics::Metrics};

const PER_SECOND: u32 = 5;
const BURST: u32 = 100;
const BACKLOG: usize = 100;
const LONGEST_NOTE: usize = 1024;
const CONTROLLER: &str = "whalezen.dev/operator";

/// Where notes are handed in.
pub struct Notes {
    to: mpsc::Sender<Note>,
    limiter: Limiter,
    metrics: Arc<Metrics>,
}

impl Notes {
    /// Starts the task that sends them.
    pub fn new(client: Client, metrics: Arc<Metrics>, identity: String) -> Self {
        let (to, mut notes) = mpsc::channel::<Note>(BACKLOG);
        let counted = Arc::clone(&metrics);
        tokio::spawn(async move {
            while let Some(note) = notes.recv().await {
                let namespace = note.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
                let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
                let answer = api.create(&PostParams::default(), &event(note, &namespace, &identity)).await;
                let code = match &answer {
                    Ok(_) => Some(201),
                    Err(kube::Error::Api(status)) => Some(status.code),
                    Err(_) => None,
                };
                counted.request("POST", "events", code);
                if let Err(problem) = answer {
                    tracing::debug!("an event was not taken: {problem}");
                }
            }
        });
        Self { to, limiter: Limiter::new(PER_SECOND, BURST, Instant::now()), metrics }
    }

    /// Sends a note, if that can be had cheaply. Says whether it does.
    pub fn send(&mut self, note: Note) -> bool {
        let taken = self.limiter.take(Instant::now()) && self.to.try_send(note).is_ok();
        if !taken {
            self.metrics.notes_dropped.inc();
        }
        taken
    }

    /// Whether a note would be taken now.
    pub fn has_room(&mut self) -> bool {
        let has = self.to.capacity() > 0 && self.limiter.take(Instant::now());
        if has {
            self.limiter.give_back(1);
        }
        has
    }
}

fn event(note: Note, namespace: &str, identity: &str) -> Event {
    let mut message = note.message;
    if message.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE - 3).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push_str("...");
    }
    Event {
        metadata: ObjectMeta {
            // A dot at its end, as in the names that client-go gives, is refused here; what is too long is cut.
            generate_name: Some(format!("{:.200}-", note.about.name)),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(Timestamp::now())),
        action: Some(note.reason.to_string()),
        reason: Some(note.reason.into_owned()),
        note: Some(message),
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(identity.to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(note.about.api_version()),
            kind: Some(note.about.kind.to_owned()),
            name: Some(note.about.name),
            namespace: note.about.namespace,
            uid: Some(note.uid),
            ..ObjectReference::default()
        }),
        ..Event::default()
    }
}

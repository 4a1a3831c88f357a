use jobq_names::topic;
use syn::visit::{self, Visit};
use syn::{Attribute, Data, DeriveInput};

use crate::mistakes::Mistakes;
use crate::model::EventType;

/// The rules for an event.
pub(crate) fn check(event: &EventType, mistakes: &mut Mistakes) {
    stands_on_the_type(&event.input, mistakes);
    has_a_topic(event, mistakes);
    topic_is_valid(event, mistakes);
    is_no_union(event, mistakes);
}

// enum UserEvent { #[event(topic = "user.created")] Created }
fn stands_on_the_type(input: &DeriveInput, mistakes: &mut Mistakes) {
    struct Inside<'m>(&'m mut Mistakes);
    impl<'ast> Visit<'ast> for Inside<'_> {
        fn visit_attribute(&mut self, attribute: &'ast Attribute) {
            if attribute.path().is_ident("event") {
                self.0.at(
                    attribute,
                    "an event has one topic: put `#[event(topic = ...)]` on its type, and define \
                     one type per topic",
                );
            }
        }
    }
    visit::visit_data(&mut Inside(mistakes), &input.data);
}

// #[derive(Event)] without #[event(topic = "...")]
fn has_a_topic(event: &EventType, mistakes: &mut Mistakes) {
    // Where something else is wrong, the topic may be there and not be readable.
    if event.topic.is_none() && mistakes.none() {
        mistakes.at(
            &event.input.ident,
            "an event needs a topic for its subscribers: below the derive, add an attribute such \
             as `#[event(topic = \"user.created\")]`",
        );
    }
}

// #[event(topic = "user.*")]
fn topic_is_valid(event: &EventType, mistakes: &mut Mistakes) {
    if let Some(topic) = &event.topic {
        mistakes.check(topic, topic::check);
    }
}

// #[derive(Event)] union
fn is_no_union(event: &EventType, mistakes: &mut Mistakes) {
    if let Data::Union(data) = &event.input.data {
        mistakes.at(
            data.union_token,
            "a union cannot be an event: derive `Event` for a struct or an enum",
        );
    }
}

use jobq::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(topic = "user.*", crate = 5, retries = 3)]
struct AllMistakesAtOnce;

fn is_event<E: Event>() {}

#[derive(Serialize, Event)]
#[event]
struct AttributeEmpty;

#[derive(Serialize, Event)]
#[event = "user.created"]
struct AttributeWithValue;

#[derive(Serialize, Event)]
#[event(topic = "user.created", crate = "my jobq")]
struct CrateNoPath;

#[derive(Serialize, Event)]
#[event(topic = "user.*")]
struct GenericWithMistake<'a, T: Clone>(&'a T)
where
    T: Copy;

#[derive(Serialize, Event)]
#[event(topic = "user.created", topic = "user.new")]
struct KeyTwice;

#[derive(Serialize, Event)]
#[event(topic = "user.created")]
#[event(topic = "user.new")]
struct KeyTwiceInTwo;

#[derive(Serialize, Event)]
#[event(topci = "user.created")]
struct MisspeltKey;

#[derive(Serialize, Event)]
struct NoAttribute;

#[derive(Serialize, Event)]
#[event(crate = "jobq")]
struct NoTopic;

#[derive(Serialize, Event)]
#[event(topic = "user.created")]
struct OnField {
    #[event(topic = "user.id")]
    user_id: u64,
}

#[derive(Serialize, Event)]
enum OnVariants {
    #[event(topic = "user.created")]
    Created,
    Renamed,
}

#[derive(Serialize, Event)]
#[event("user.created")]
struct TextAlone;

#[derive(Serialize, Event)]
#[event(topic = "")]
struct TopicEmpty;

#[derive(Serialize, Event)]
#[event(topic = user.created)]
struct TopicNoText;

#[derive(Serialize, Event)]
#[event(topic = 5)]
struct TopicNumber;

#[derive(Serialize, Event)]
#[event(topic = ".user")]
struct TopicWithEmptyWord;

#[derive(Serialize, Event)]
#[event(topic = "user created")]
struct TopicWithSpace;

#[derive(Serialize, Event)]
#[event(topic = "user.*")]
struct TopicWithWildcard;

#[derive(Serialize, Event)]
#[event(topic)]
struct TopicWithoutValue;

#[derive(Event)]
#[event(topic = "user.created")]
union Union {
    small: u8,
    large: u64,
}

#[derive(Serialize, Event)]
#[event(topic = "user.created", retries = 3)]
struct UnknownKey;

fn main() {
    is_event::<AllMistakesAtOnce>();
    is_event::<AttributeEmpty>();
    is_event::<AttributeWithValue>();
    is_event::<CrateNoPath>();
    is_event::<GenericWithMistake<'static, u8>>();
    is_event::<KeyTwice>();
    is_event::<KeyTwiceInTwo>();
    is_event::<MisspeltKey>();
    is_event::<NoAttribute>();
    is_event::<NoTopic>();
    is_event::<OnField>();
    is_event::<OnVariants>();
    is_event::<TextAlone>();
    is_event::<TopicEmpty>();
    is_event::<TopicNoText>();
    is_event::<TopicNumber>();
    is_event::<TopicWithEmptyWord>();
    is_event::<TopicWithSpace>();
    is_event::<TopicWithWildcard>();
    is_event::<TopicWithoutValue>();
    is_event::<UnknownKey>();
}

//! The engine for `amqp://` and `amqps://` URLs: `RabbitMQ`, through `lapin`.

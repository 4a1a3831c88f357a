"""Sends one message by a client of another protocol: PROTOCOL PORT NAMESPACE."""

import json
import sys

BODY = json.dumps({"id": 7, "to": "a@example.org"})


def amqp_1_0(port, namespace, body, inferred):
    from proton import Message
    from proton.utils import BlockingConnection

    connection = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{port}")
    sender = connection.create_sender(f"/exchanges/{namespace}/protocols")
    annotations = {"x-basic-type": "greet"}
    message = Message(body=body, inferred=inferred, durable=True, annotations=annotations)
    delivery = sender.send(message)
    assert delivery.remote_state == delivery.ACCEPTED, delivery.remote_state
    connection.close()


def data(port, namespace):
    amqp_1_0(port, namespace, BODY.encode(), inferred=True)


def value(port, namespace):
    amqp_1_0(port, namespace, BODY.encode(), inferred=False)


def mqtt(port, namespace):
    from paho.mqtt.client import CallbackAPIVersion, Client

    client = Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set("guest", "guest")
    client.connect("127.0.0.1", port)
    client.loop_start()
    sent = client.publish(f"{namespace}/created", BODY, qos=1)
    sent.wait_for_publish(60)
    assert sent.is_published()
    client.disconnect()


def stomp(port, namespace):
    import stomp as library

    connection = library.Connection([("127.0.0.1", port)])
    connection.connect("guest", "guest", wait=True)
    headers = {"persistent": "true", "type": "greet", "receipt": "1"}
    waiter = library.listener.WaitingListener("1")
    connection.set_listener("", waiter)
    connection.send(f"/exchange/{namespace}/protocols", BODY, headers=headers)
    waiter.wait_on_receipt()
    connection.disconnect()


def celery(port, namespace):
    from celery import Celery
    from kombu import Exchange

    app = Celery(broker=f"amqp://guest:guest@127.0.0.1:{port}")
    app.conf.broker_transport_options = {"confirm_publish": True}
    exchange = Exchange(namespace, type="topic", durable=True, passive=True)
    app.send_task(
        "greet", args=[7, "a@example.org"], exchange=exchange, routing_key="protocols", declare=[]
    )
    app.close()


globals()[sys.argv[1]](int(sys.argv[2]), sys.argv[3])

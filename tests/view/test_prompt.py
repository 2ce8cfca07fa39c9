"""What a kernel says is passed on at once."""

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

from posenc_lib.view.prompt import PromptConnection


def test_it_does_not_wait_for_more_to_send(monkeypatch):
    asked = []

    class Handler:
        def set_nodelay(self, value):
            asked.append(value)

    def connected(self):
        asked.append("connected")

    monkeypatch.setattr(ZMQChannelsWebsocketConnection, "connect", connected)
    connection = PromptConnection.__new__(PromptConnection)
    monkeypatch.setattr(PromptConnection, "websocket_handler", Handler())
    connection.connect()
    assert asked == [True, "connected"]

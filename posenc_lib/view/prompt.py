"""A JupyterLab that passes on at once what its kernels say; ``make lab`` starts it so."""

from asyncio import Future

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection


class PromptConnection(ZMQChannelsWebsocketConnection):
    """The way from a kernel to a page, without waiting for more to send.

    The system holds back a short message until the page has confirmed the one before, which takes up to 40 ms: as long
    as an explorer takes to answer.
    """

    def connect(self) -> Future[None] | None:  # type: ignore[override]  # its bases disagree
        """Begin to pass messages on."""
        self.websocket_handler.set_nodelay(True)
        return super().connect()

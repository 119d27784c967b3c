"""A protocol for connections whose bytes do not matter, or for subclasses that look at them."""

from penstock.gateway.listening.shared_buffer import SharedBufferProtocol


class Receiving(SharedBufferProtocol):
    """Reads as a gateway's connections do."""

    read_buffer = memoryview(bytearray(2**18))

    def data_received(self, data):
        pass

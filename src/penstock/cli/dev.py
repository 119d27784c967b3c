"""dev"""


def add_arguments(p): ...
def run(o):
    return 0

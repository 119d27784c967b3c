"""What upb has read, looked at message by message: whether it fits, the slow way.

Works on what the runtime returns, and shares no code with what is tested.
"""

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet


def fits(new, data, *, unknown=False):
    try:
        message = new.FromString(data)
    except DecodeError:
        return False
    return message.IsInitialized() and (unknown or not has_unknown(message))


def has_unknown(message):
    if len(UnknownFieldSet(message)):
        return True
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None and any(
                has_unknown(one)
                for one in value.values()  # keys of proto2 need not be text
            ):
                return True
        elif field.is_repeated:
            if any(has_unknown(one) for one in value):
                return True
        elif has_unknown(value):
            return True
    return False

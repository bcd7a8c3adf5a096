"""Creates, changes, deletes and lists users and their policies (AdminBrokerProcessor.java, 5.5.0)."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mocketmq.access.needs import Action
from mocketmq.access.policies import Resource, parse_policies, policy_type_of
from mocketmq.access.users import SUPER, USER_STATUSES, USER_TYPES, UserAccount
from mocketmq.errors import AuthError
from mocketmq.remoting.access_rule import administers, reads
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.body import object_of, objects_in
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import RequestHeader
from mocketmq.remoting.wire.signature import ACCESS_KEY

_SUBJECT: Final = "User:"
_BLANK: Final = "The username is blank"


class UsernameHeader(RequestHeader):
    """Names a user."""

    username: str = ""


class UserFilterHeader(RequestHeader):
    """``filter`` is a text that the names of the listed users contain."""

    filter: str = ""


class SubjectHeader(RequestHeader):
    """Names a user as ``User:name``."""

    subject: str = ""


class DeletePoliciesHeader(RequestHeader):
    """Names the policies to delete. Without a resource, all policies of the subject are deleted."""

    subject: str = ""
    policy_type: str = ""
    resource: str = ""


class PolicyFilterHeader(RequestHeader):
    """Texts that the subjects and the resources of the listed policies contain."""

    subject_filter: str = ""
    resource_filter: str = ""


class _Given(NamedTuple):
    """A user's properties in a request. None means that the request omits the property."""

    password: str | None
    user_type: str | None
    status: str | None


_CHANGES, _READS = administers(Action.UPDATE), reads()
USERS: Final = RequestFamily("Users and policies")


@Request(USERS, RequestCode.AUTH_CREATE_USER, access=_CHANGES)
async def create_user(call: RemotingCall[UsernameHeader]) -> Response:
    """Create a user. Only a super user can create super users."""
    name, given = _name(call), _given(call.command.body)
    _check_super(call, given.user_type == SUPER, "create")
    await call.broker.registry.users.create(name, *given)
    return Response()


@Request(USERS, RequestCode.AUTH_UPDATE_USER, access=_CHANGES)
async def update_user(call: RemotingCall[UsernameHeader]) -> Response:
    """Change a user's password, type or status. Only a super user can change super users."""
    name, given = _name(call), _given(call.command.body)
    _check_super(call, given.user_type == SUPER, "update")
    old = call.broker.registry.users.find(name)
    if old is not None and old.is_super and not _is_super(call):
        raise AuthError("The super user can only be update by super user")
    await call.broker.registry.users.update(name, *given)
    return Response()


@Request(USERS, RequestCode.AUTH_DELETE_USER, access=_CHANGES)
async def delete_user(call: RemotingCall[UsernameHeader]) -> Response:
    """Delete a user, if it exists. Only a super user can delete super users."""
    if not call.header.username.strip():
        raise AuthError("username can not be blank")
    user = call.broker.registry.users.find(call.header.username)
    if user is None:
        return Response()
    if user.is_super and not _is_super(call):
        raise AuthError("The super user can only be update by super user")
    await call.broker.registry.users.delete(user.access_key)
    return Response()


@Request(USERS, RequestCode.AUTH_GET_USER, access=_READS)
async def get_user(call: RemotingCall[UsernameHeader]) -> Response:
    """Return a user with its password, as in RocketMQ. If there is no such user, the body is empty."""
    name = _name(call)
    if not name.strip():
        raise RemotingError(ResponseCode.INVALID_PARAMETER, _BLANK)
    user = call.broker.registry.users.find(name)
    return Response(body=dumps(_shown(user))) if isinstance(user, UserAccount) else Response()


@Request(USERS, RequestCode.AUTH_LIST_USER, access=_READS)
async def list_users(call: RemotingCall[UserFilterHeader]) -> Response:
    """List the users. If there are none, the body is empty."""
    text = call.header.filter.strip()
    found = [_shown(user) for user in call.broker.registry.users.sorted_by_name() if text in user.access_key]
    return Response(body=dumps(found)) if found else Response()


@Request(USERS, RequestCode.AUTH_CREATE_ACL, access=_CHANGES)
@Request(USERS, RequestCode.AUTH_UPDATE_ACL, access=_CHANGES)
async def put_policies(call: RemotingCall[SubjectHeader]) -> Response:
    """Add to a user's policies, or change them. RocketMQ makes no difference between the two requests."""
    body = object_of(call.command.body)
    policies = list(objects_in(body, "policies"))
    if not policies:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, "The body of acl is null")
    subject = body.get("subject")
    name = _user_in(subject if isinstance(subject, str) else call.header.subject)
    if name is None:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, "the subject is no user; allowed: User:name")
    await call.broker.registry.users.add_policies(name, parse_policies(policies))
    return Response()


@Request(USERS, RequestCode.AUTH_DELETE_ACL, access=_CHANGES)
async def delete_policies(call: RemotingCall[DeletePoliciesHeader]) -> Response:
    """Delete a user's policy entry for a resource, or all policies of the user."""
    name = _user_in(call.header.subject)
    if name is None:
        raise AuthError("The subject is null.")
    resource, policy_type = Resource.parse(call.header.resource), policy_type_of(call.header.policy_type)
    await call.broker.registry.users.delete_policies(name, policy_type, resource)
    return Response()


@Request(USERS, RequestCode.AUTH_GET_ACL, access=_READS)
async def get_policies(call: RemotingCall[SubjectHeader]) -> Response:
    """Return a user's policies. If there are none, the body is empty."""
    name = _user_in(call.header.subject)
    if name is None:
        raise AuthError("The subject is null.")
    user = call.broker.registry.users.find(name)
    if user is None:
        raise AuthError("The subject is not exist.")
    if not isinstance(user, UserAccount) or not user.policies.by_type:
        return Response()
    return Response(body=dumps(_policies_of(user)))


@Request(USERS, RequestCode.AUTH_LIST_ACL, access=_READS)
async def list_policies(call: RemotingCall[PolicyFilterHeader]) -> Response:
    """List the policies of all users. If there are none, the body is empty."""
    subjects, resources = call.header.subject_filter.strip(), call.header.resource_filter.strip()
    found = [
        acl
        for user in call.broker.registry.users.sorted_by_name()
        if subjects in user.subject
        for acl in [_policies_of(user, resources)]
        if acl["policies"]
    ]
    return Response(body=dumps(found)) if found else Response()


def _name(call: RemotingCall[UsernameHeader]) -> str:
    if not call.header.username:
        raise RemotingError(ResponseCode.INVALID_PARAMETER, _BLANK)
    return call.header.username


def _user_in(subject: str) -> str | None:
    """The user's name in a subject; None if the subject is no user."""
    kind, _, name = subject.partition(":")
    return name if f"{kind.capitalize()}:" == _SUBJECT else None


def _given(content: bytes) -> _Given:
    body = object_of(content)
    password = body.get("password")
    return _Given(
        password if isinstance(password, str) else None,
        _known(body.get("userType"), USER_TYPES),
        _known(body.get("userStatus"), USER_STATUSES),
    )


def _known(name: object, names: tuple[str, ...]) -> str | None:
    return next((each for each in names if isinstance(name, str) and each.lower() == name.lower()), None)


def _check_super(call: RemotingCall[UsernameHeader], is_super: bool, what: str) -> None:
    """Raise RemotingError if the request requires a super user, and another user sent it."""
    if is_super and not _is_super(call):
        raise RemotingError(ResponseCode.SYSTEM_ERROR, f"The super user can only be {what} by super user")


def _is_super(call: RemotingCall[Any]) -> bool:
    """Whether the sender may create and change super users. The guard has checked the signature."""
    sender = call.broker.registry.users.find(call.command.ext.get(ACCESS_KEY, ""))
    return sender is not None and sender.is_super


def _shown(user: UserAccount) -> Mapping[str, str]:
    return {
        "password": user.secret,
        "userStatus": user.status,
        "userType": user.user_type,
        "username": user.access_key,
    }


def _policies_of(user: UserAccount, text: str = "") -> Mapping[str, Any]:
    return {"policies": user.policies.about(text).as_json(), "subject": user.subject}

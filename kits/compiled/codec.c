/* The codec of a release, in place of emulator/mocketmq/codec.py, which says what each function does.
 *
 * A function returns None for whatever it does not handle: input that is unusual, invalid or too large. The
 * caller's Python then decides, and words every error. So this code only has to recognize what it is sure of.
 * Nothing here is recursive, no loop runs longer than its input, and no Python code is called.
 *
 * It needs only the stable ABI of Python 3.11.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define ROOM 2048 /* the maximum size of a header in bytes; the usual size of properties */

/* Short texts that repeat from message to message: names, numbers, topics. Each has one place, given by its hash,
 * and replaces the text that was there, so that they take less than 200 KB. The GIL protects them. */
#define LONGEST_REMEMBERED 32
#define REMEMBERED 1024
static PyObject *remembered[REMEMBERED];

/* A new reference to the text with these bytes of UTF-8; NULL with an exception if they are invalid. */
static PyObject *text_of(const char *data, Py_ssize_t size)
{
    if (size > LONGEST_REMEMBERED)
        return PyUnicode_DecodeUTF8(data, size, "strict");
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (Py_ssize_t at = 0; at < size; at++)
        hash = (hash ^ (unsigned char)data[at]) * 16777619u;
    PyObject **place = &remembered[(hash ^ hash >> 16) % REMEMBERED];
    if (*place) {
        Py_ssize_t length;
        const char *known = PyUnicode_AsUTF8AndSize(*place, &length);
        if (!known)
            return NULL;
        if (length == size && memcmp(known, data, (size_t)size) == 0)
            return Py_NewRef(*place);
    }
    PyObject *text = PyUnicode_DecodeUTF8(data, size, "strict");
    if (text) {
        PyObject *old = *place;
        *place = Py_NewRef(text);
        Py_XDECREF(old);
    }
    return text;
}

/* JSON that is being read, and the room for strings whose escapes are resolved, which never become longer. */
typedef struct {
    const char *at, *end;
    char *room;
} Json;

static int is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static void skip_space(Json *json)
{
    while (json->at < json->end && is_space(*json->at))
        json->at++;
}

/* Whether this character is next, apart from white space. If so, it is passed. */
static int take(Json *json, char wanted)
{
    skip_space(json);
    if (json->at == json->end || *json->at != wanted)
        return 0;
    json->at++;
    return 1;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code unit of an escape with four hexadecimal digits; -1 for a surrogate or another character. */
static int code_unit(Json *json)
{
    if (json->end - json->at < 4)
        return -1;
    int unit = 0;
    for (int count = 0; count < 4; count++) {
        int digit = hex_digit(*json->at++);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit >= 0xD800 && unit <= 0xDFFF ? -1 : unit;
}

/* Resolve the escape after a backslash. Returns the end of its UTF-8 in `out`; NULL if it is invalid. */
static char *unescape(Json *json, char *out)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end)
        return NULL;
    char c = *json->at++;
    if (c != 'u') {
        const char *found = c ? strchr(escapes, c) : NULL;
        if (!found)
            return NULL;
        *out++ = meanings[found - escapes];
        return out;
    }
    int unit = code_unit(json);
    if (unit < 0)
        return NULL;
    if (unit < 0x80)
        *out++ = (char)unit;
    else if (unit < 0x800) {
        *out++ = (char)(0xC0 | unit >> 6);
        *out++ = (char)(0x80 | (unit & 0x3F));
    } else {
        *out++ = (char)(0xE0 | unit >> 12);
        *out++ = (char)(0x80 | (unit >> 6 & 0x3F));
        *out++ = (char)(0x80 | (unit & 0x3F));
    }
    return out;
}

/* Read a string. Its UTF-8 is valid until the next string is read. Returns its size, or -1. */
static Py_ssize_t take_string(Json *json, const char **data)
{
    if (!take(json, '"'))
        return -1;
    const char *start = json->at;
    while (json->at < json->end && *json->at != '"' && *json->at != '\\' && (unsigned char)*json->at >= 0x20)
        json->at++;
    Py_ssize_t size = json->at - start;
    if (json->at < json->end && *json->at == '"') {
        json->at++;
        *data = start;
        return size;
    }
    memcpy(json->room, start, (size_t)size);
    char *out = json->room + size;
    while (json->at < json->end && (unsigned char)*json->at >= 0x20) {
        char c = *json->at++;
        if (c == '"') {
            *data = json->room;
            return out - json->room;
        }
        if (c != '\\')
            *out++ = c;
        else if (!(out = unescape(json, out)))
            return -1;
    }
    return -1;
}

static int is_ascii(const char *data, Py_ssize_t size)
{
    for (Py_ssize_t at = 0; at < size; at++)
        if ((unsigned char)data[at] >= 0x80)
            return 0;
    return 1;
}

/* Pass the value of an unknown field. Returns 0 unless it is a string, and both are ASCII: others may be invalid. */
static int pass_field(Json *json, const char *name, Py_ssize_t size)
{
    const char *data;
    if (!is_ascii(name, size))
        return 0;
    size = take_string(json, &data);
    return size >= 0 && is_ascii(data, size);
}

/* Read decimal digits, with or without a minus. Returns 0 for anything else, and for over 18 digits. */
static int number_of(const char *data, Py_ssize_t size, long long *number)
{
    int is_negative = size > 0 && *data == '-';
    Py_ssize_t at = is_negative;
    if (size == at || size - at > 18)
        return 0;
    long long value = 0;
    for (; at < size; at++) {
        if (data[at] < '0' || data[at] > '9')
            return 0;
        value = value * 10 + (data[at] - '0');
    }
    *number = is_negative ? -value : value;
    return 1;
}

static int is_int32(long long number) { return number >= INT32_MIN && number <= INT32_MAX; }

/* Read a number of 32 bits, as JSON writes it. */
static int take_number(Json *json, long long *number)
{
    skip_space(json);
    const char *start = json->at;
    while (json->at < json->end && (*json->at == '-' || (*json->at >= '0' && *json->at <= '9')))
        json->at++;
    Py_ssize_t size = json->at - start;
    const char *digits = start + (size && *start == '-');
    return number_of(start, size, number) && is_int32(*number) && (*digits != '0' || digits + 1 == json->at);
}

/* The fields `a` to `m`, in the order of SendMessageHeader: text (t), numbers of 32 and 64 bits (4, 8), and
 * booleans (b). The first ones are mandatory. */
#define FIELDS 13
#define MANDATORY 8
#define MAX_EXT 32
static const char kinds[] = "ttt44484t4b4b";

/* The value of a field; NULL for any that is unusual. */
static PyObject *value_of(char kind, const char *data, Py_ssize_t size)
{
    long long number;
    if (!size)
        return NULL;
    switch (kind) {
    case 't':
        return text_of(data, size);
    case 'b':
        if (size == 4 && !memcmp(data, "true", 4))
            return Py_NewRef(Py_True);
        return size == 5 && !memcmp(data, "false", 5) ? Py_NewRef(Py_False) : NULL;
    default:
        if (!number_of(data, size, &number) || (kind == '4' && !is_int32(number)))
            return NULL;
        return PyLong_FromLongLong(number);
    }
}

/* Read the ext fields of a send into `values`, and pass other fields. */
static int take_fields(Json *json, PyObject **values)
{
    if (!take(json, '{'))
        return 0;
    int count = 0;
    do {
        const char *data;
        Py_ssize_t size = take_string(json, &data);
        char name = size == 1 ? *data : 0;
        if (size < 0 || ++count > MAX_EXT || data == json->room || !take(json, ':'))
            return 0;
        if (name < 'a' || name >= 'a' + FIELDS) {
            if (!pass_field(json, data, size))
                return 0;
            continue;
        }
        PyObject **value = &values[name - 'a'];
        if (*value || (size = take_string(json, &data)) < 0 || !(*value = value_of(kinds[name - 'a'], data, size)))
            return 0;
    } while (take(json, ','));
    return take(json, '}');
}

/* What read_send reads. */
typedef struct {
    long long code, opaque, flag, version;
    PyObject *language, *values[FIELDS];
    int has_fields;
} Send;

static int is_named(const char *wanted, const char *data, Py_ssize_t size)
{
    return (Py_ssize_t)strlen(wanted) == size && !memcmp(wanted, data, (size_t)size);
}

/* Read the header of a command with the code `wanted`. */
static int take_send(Json *json, long long wanted, Send *send)
{
    if (!take(json, '{'))
        return 0;
    do {
        const char *name;
        Py_ssize_t size = take_string(json, &name);
        const char *data;
        if (size < 0 || name == json->room || !take(json, ':'))
            return 0;
        if (is_named("code", name, size)) {
            if (!take_number(json, &send->code) || send->code != wanted)
                return 0;
        } else if (is_named("extFields", name, size)) {
            if (send->has_fields++ || !take_fields(json, send->values))
                return 0;
        } else if (is_named("flag", name, size)) {
            if (!take_number(json, &send->flag))
                return 0;
        } else if (is_named("opaque", name, size)) {
            if (!take_number(json, &send->opaque))
                return 0;
        } else if (is_named("version", name, size)) {
            if (!take_number(json, &send->version))
                return 0;
        } else if (is_named("language", name, size)) {
            if (send->language || (size = take_string(json, &data)) < 0 || !(send->language = text_of(data, size)))
                return 0;
        } else if (is_named("remark", name, size)) {
            if (take_string(json, &data)) /* Go sends an empty one */
                return 0;
        } else if (!pass_field(json, name, size))
            return 0;
    } while (take(json, ','));
    if (!take(json, '}'))
        return 0;
    skip_space(json);
    return json->at == json->end && send->code == wanted && send->language;
}

/* The default of an optional field. */
static PyObject *default_of(int field)
{
    switch (kinds[field]) {
    case 't':
        return PyUnicode_FromString("");
    case 'b':
        return Py_NewRef(Py_False);
    default:
        return field == 'l' - 'a' ? Py_NewRef(Py_None) : PyLong_FromLong(0);
    }
}

/* The tuple of the values, which it takes over; NULL if a mandatory one is missing. */
static PyObject *values_of(Send *send)
{
    for (int field = 0; field < FIELDS; field++)
        if (!send->values[field] && (field < MANDATORY || !(send->values[field] = default_of(field))))
            return NULL;
    PyObject *values = PyTuple_New(FIELDS);
    for (int field = 0; values && field < FIELDS; field++) {
        PyTuple_SetItem(values, field, send->values[field]);
        send->values[field] = NULL;
    }
    return values;
}

PyDoc_STRVAR(read_send_doc, "read_send(header, code)\n--\n\nRead the header of a send.");

static PyObject *read_send(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    char *data;
    Py_ssize_t size;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "read_send takes a header and a code");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(args[0], &data, &size))
        return NULL;
    long long code = PyLong_AsLongLong(args[1]);
    if (code == -1 && PyErr_Occurred())
        return NULL;
    if (size > ROOM)
        Py_RETURN_NONE;
    char room[ROOM];
    Json json = {data, data + size, room};
    Send send = {0};
    PyObject *values = take_send(&json, code, &send) ? values_of(&send) : NULL, *result = NULL;
    if (values)
        result = Py_BuildValue("(LLLON)", send.opaque, send.flag, send.version, send.language, values);
    for (int field = 0; field < FIELDS; field++)
        Py_XDECREF(send.values[field]);
    Py_XDECREF(send.language);
    if (result)
        return result;
    PyErr_Clear(); /* Python decides, and runs out of memory by itself */
    Py_RETURN_NONE;
}

PyDoc_STRVAR(read_properties_doc, "read_properties(text)\n--\n\nRead the properties in a client's string.");

static PyObject *read_properties(PyObject *Py_UNUSED(module), PyObject *text)
{
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(text, &size);
    const char *end = data ? data + size : NULL;
    PyObject *properties = data ? PyDict_New() : NULL;
    while (properties && data < end) {
        const char *next = memchr(data, 2, (size_t)(end - data));
        if (!next)
            next = end;
        const char *middle = memchr(data, 1, (size_t)(next - data));
        if (middle && middle > data && middle + 1 < next) {
            PyObject *name = text_of(data, middle - data);
            PyObject *value = name ? text_of(middle + 1, next - middle - 1) : NULL;
            if (!value || PyDict_SetItem(properties, name, value))
                Py_CLEAR(properties);
            Py_XDECREF(name);
            Py_XDECREF(value);
        }
        data = next + 1;
    }
    if (properties)
        return properties;
    PyErr_Clear(); /* a lone surrogate, for one */
    Py_RETURN_NONE;
}

PyDoc_STRVAR(write_properties_doc, "write_properties(properties, limit)\n--\n\nWrite properties as a string.");

static PyObject *write_properties(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyDict_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "write_properties takes a dict and a limit");
        return NULL;
    }
    Py_ssize_t limit = PyLong_AsSsize_t(args[1]), at = 0;
    if (limit == -1 && PyErr_Occurred())
        return NULL;
    if (limit > ROOM)
        limit = ROOM;
    char room[ROOM], *out = room;
    PyObject *pair[2];
    while (PyDict_Next(args[0], &at, &pair[0], &pair[1]))
        for (int n = 0; n < 2; n++) {
            Py_ssize_t size;
            const char *data = PyUnicode_Check(pair[n]) ? PyUnicode_AsUTF8AndSize(pair[n], &size) : NULL;
            if (!data || !size || size >= limit - (out - room) || memchr(data, 1, (size_t)size) ||
                memchr(data, 2, (size_t)size)) {
                PyErr_Clear();
                Py_RETURN_NONE;
            }
            memcpy(out, data, (size_t)size);
            out += size;
            *out++ = (char)(1 + n);
        }
    return PyUnicode_DecodeUTF8(room, out - room, "strict");
}

/* A header that is being written. Once a part does not fit, `at` is NULL. */
typedef struct {
    char *at, *end;
} Writer;

static void put(Writer *writer, const char *data, Py_ssize_t size)
{
    if (!writer->at || size > writer->end - writer->at) {
        writer->at = NULL;
        return;
    }
    memcpy(writer->at, data, (size_t)size);
    writer->at += size;
}

static void put_text(Writer *writer, const char *text) { put(writer, text, (Py_ssize_t)strlen(text)); }

/* Write a string of JSON, without escapes: a character that needs one does not fit. */
static void put_string(Writer *writer, PyObject *text)
{
    Py_ssize_t size = 0;
    const char *data = PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
    for (Py_ssize_t at = 0; data && at < size; at++)
        if ((unsigned char)data[at] < 0x20 || data[at] == '"' || data[at] == '\\')
            data = NULL;
    if (!data) {
        PyErr_Clear();
        writer->at = NULL;
        return;
    }
    put_text(writer, "\"");
    put(writer, data, size);
    put_text(writer, "\"");
}

static void put_number(Writer *writer, const char *name, PyObject *number)
{
    char digits[24], *at = digits + sizeof digits;
    long long value = PyLong_AsLongLong(number);
    unsigned long long left = value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value;
    if (value == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        writer->at = NULL;
        return;
    }
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--at = '-';
    put_text(writer, name);
    put(writer, at, digits + sizeof digits - at);
}

#define MAX_BODY (1 << 20) /* in bytes; Python refuses what is too large for a frame */

static char *put_big_endian(char *out, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *out++ = (char)(number >> shift);
    return out;
}

PyDoc_STRVAR(write_frame_doc, "write_frame(code, ext, flag, language, opaque, version, body)\n--\n\n"
                              "Write a frame with a JSON header.");

static PyObject *write_frame(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 7) {
        PyErr_SetString(PyExc_TypeError, "write_frame takes six fields and a body");
        return NULL;
    }
    char room[ROOM];
    Writer header = {room, room + ROOM};
    PyObject *name, *value;
    Py_ssize_t at = 0, body = PyBytes_Check(args[6]) ? PyBytes_Size(args[6]) : -1;
    const char *separator = "";
    put_number(&header, "{\"code\":", args[0]);
    put_text(&header, ",\"extFields\":{");
    if (!PyDict_Check(args[1]) || body < 0 || body > MAX_BODY)
        header.at = NULL;
    while (header.at && PyDict_Next(args[1], &at, &name, &value)) {
        put_text(&header, separator);
        put_string(&header, name);
        put_text(&header, ":");
        put_string(&header, value);
        separator = ",";
    }
    put_number(&header, "},\"flag\":", args[2]);
    put_text(&header, ",\"language\":");
    put_string(&header, args[3]);
    put_number(&header, ",\"opaque\":", args[4]);
    put_number(&header, ",\"version\":", args[5]);
    put_text(&header, ",\"serializeTypeCurrentRPC\":\"JSON\"}");
    Py_ssize_t size = header.at ? header.at - room : 0;
    PyObject *frame = size ? PyBytes_FromStringAndSize(NULL, 8 + size + body) : NULL;
    if (!frame) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    char *out = put_big_endian(PyBytes_AsString(frame), (uint32_t)(4 + size + body));
    out = put_big_endian(out, (uint32_t)size);
    memcpy(out, room, (size_t)size);
    memcpy(out + size, PyBytes_AsString(args[6]), (size_t)body);
    return frame;
}

#define HOST_DIGITS 16
#define OFFSET_DIGITS 16

PyDoc_STRVAR(write_message_id_doc, "write_message_id(host, log_offset)\n--\n\nWrite an offset message id.");

static PyObject *write_message_id(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "write_message_id takes a host's digits and a log offset");
        return NULL;
    }
    Py_ssize_t size;
    const char *host = PyUnicode_AsUTF8AndSize(args[0], &size);
    long long offset = PyLong_AsLongLong(args[1]);
    if (!host || size != HOST_DIGITS || offset < 0) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    char id[HOST_DIGITS + OFFSET_DIGITS];
    memcpy(id, host, HOST_DIGITS);
    for (int at = HOST_DIGITS + OFFSET_DIGITS; at-- > HOST_DIGITS; offset >>= 4)
        id[at] = "0123456789ABCDEF"[offset & 15];
    return PyUnicode_DecodeUTF8(id, sizeof id, "strict");
}

static PyMethodDef methods[] = {
    {"read_send", (PyCFunction)(void (*)(void))read_send, METH_FASTCALL, read_send_doc},
    {"read_properties", read_properties, METH_O, read_properties_doc},
    {"write_properties", (PyCFunction)(void (*)(void))write_properties, METH_FASTCALL, write_properties_doc},
    {"write_frame", (PyCFunction)(void (*)(void))write_frame, METH_FASTCALL, write_frame_doc},
    {"write_message_id", (PyCFunction)(void (*)(void))write_message_id, METH_FASTCALL, write_message_id_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef codec = {
    PyModuleDef_HEAD_INIT,
    .m_name = "codec",
    .m_doc = "The codec of a release.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit_codec(void) { return PyModule_Create(&codec); }

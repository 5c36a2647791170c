/* One page of the answer of List Blobs; see blob_list.h. The body is XML of this form:
 *
 *   <EnumerationResults ...>
 *     <Blobs>
 *       <Blob>
 *         <Name>...</Name>
 *         <Properties><Content-Length>0</Content-Length>...</Properties>
 *         <Metadata><bellwether>...</bellwether></Metadata>
 *       </Blob>
 *       <BlobPrefix><Name>.../</Name></BlobPrefix>
 *     </Blobs>
 *     <NextMarker>...</NextMarker>
 *   </EnumerationResults>
 *
 * Reads elements, attributes and character references: the part of XML that this answer uses.
 * Comments, CDATA and document types are malformed.
 *
 * As in read.c, a blob is an election's if it has no content and no metadata of another program. */
#include "store/azure/blob_list.h"

#include "store/azure/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH_MAX 16u
#define TAG_MAX   1088u /* a metadata name has fewer bytes than a header */
#define TEXT_MAX  AZURE_MARKER_MAX

enum piece { OPEN, CLOSE, EMPTY, TEXT, END, MALFORMED };

struct xml {
    const char *at, *end;
    const char *bytes; /* of the last piece: the element's name, or text with references */
    size_t length;
    bool attributes; /* the last tag has attributes */
};

/* ---- XML ---- */

/* Returns the '>' that ends the tag, or NULL. */
static const char *tag_end(const struct xml *xml)
{
    char quote = '\0';
    for (const char *at = xml->at; at < xml->end; at++) {
        if (quote ? *at == quote : *at == '"' || *at == '\'')
            quote = quote ? '\0' : *at;
        else if (!quote && *at == '>')
            return at;
    }
    return NULL;
}

static enum piece next_tag(struct xml *xml)
{
    const char *last = tag_end(xml), *at = xml->at + 1;
    if (!last || *at == '!')
        return MALFORMED;
    xml->at = last + 1;
    xml->length = 0;
    if (*at == '?') /* the declaration, like a text without bytes */
        return TEXT;
    bool closes = *at == '/', empty = !closes && last[-1] == '/';
    xml->bytes = at + closes;
    const char *name_end = last - empty;
    while (xml->bytes + xml->length < name_end && !strchr(" \t\r\n", xml->bytes[xml->length]))
        xml->length++;
    xml->attributes = xml->bytes + xml->length < name_end;
    return xml->length == 0 ? MALFORMED : closes ? CLOSE : empty ? EMPTY : OPEN;
}

static enum piece next_piece(struct xml *xml)
{
    if (xml->at == xml->end)
        return END;
    if (*xml->at == '<')
        return next_tag(xml);
    const char *next = memchr(xml->at, '<', (size_t)(xml->end - xml->at));
    xml->bytes = xml->at;
    xml->at = next ? next : xml->end;
    xml->length = (size_t)(xml->at - xml->bytes);
    return TEXT;
}

/* Decodes a reference at `at`, such as "&amp;" or "&#38;", of ASCII characters. Returns its length,
 * or 0. */
static size_t read_reference(const char *at, size_t length, char *out)
{
    static const struct {
        const char *text;
        char value;
    } known[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t size = strlen(known[i].text);
        *out = known[i].value;
        if (length >= size && memcmp(at, known[i].text, size) == 0)
            return size;
    }
    char digits[8] = "", *end = digits;
    const char *last = memchr(at, ';', length < 8 ? length : 8);
    if (!last || last - at < 3 || at[1] != '#')
        return 0;
    bool hex = at[2] == 'x';
    memcpy(digits, at + 2 + hex, (size_t)(last - at) - 2 - hex);
    unsigned long value = strtoul(digits, &end, hex ? 16 : 10);
    *out = (char)value;
    return *end || end == digits || value == 0 || value > 127 ? 0 : (size_t)(last - at) + 1;
}

/* ---- the list ---- */

struct list {
    struct xml xml;
    struct {
        const char *name;
        size_t length;
    } path[DEPTH_MAX];
    unsigned depth;
    char text[TEXT_MAX + 1]; /* of the innermost element */
    size_t used;
    bool too_long;                 /* the text does not fit */
    bool is_root, ended;           /* the root is that of List Blobs; it has ended */
    bool is_named, is_empty, ours; /* of the present blob */
    char blob[AZURE_NAME_MAX + 1];
    struct bw_names *names;
    char *marker;
};

static bool is_called(const struct list *list, unsigned depth, const char *name)
{
    return depth < list->depth && list->path[depth].length == strlen(name) &&
           strncasecmp(list->path[depth].name, name, list->path[depth].length) == 0;
}

static bool is_in_blob(const struct list *list)
{
    return is_called(list, 1, "Blobs") && is_called(list, 2, "Blob");
}

static int add_text(struct list *list)
{
    const struct xml *xml = &list->xml;
    for (size_t i = 0; i < xml->length;) {
        char byte = xml->bytes[i];
        size_t size = byte == '&' ? read_reference(xml->bytes + i, xml->length - i, &byte) : 1;
        list->too_long |= size == 0 || byte == '\0' || list->used == TEXT_MAX;
        if (list->too_long)
            return 0; /* a name or marker like this is not used */
        list->text[list->used++] = byte;
        i += size;
    }
    list->text[list->used] = '\0';
    return 0;
}

static int open_element(struct list *list)
{
    if (list->depth == DEPTH_MAX || list->ended || list->xml.length > TAG_MAX)
        return BW_EMALFORMED;
    list->path[list->depth].name = list->xml.bytes;
    list->path[list->depth++].length = list->xml.length;
    list->used = 0;
    list->text[0] = '\0';
    list->too_long = false;
    list->is_root |= list->depth == 1 && is_called(list, 0, "EnumerationResults");
    if (list->depth == 3 && is_in_blob(list)) {
        list->is_named = list->is_empty = false;
        list->ours = true;
    }
    /* an encoded name has characters that no name of an election has */
    if (list->depth == 4 && is_in_blob(list) && is_called(list, 3, "Name") && list->xml.attributes)
        list->ours = false;
    return 0;
}

static void take_name(struct list *list)
{
    list->is_named = !list->too_long && list->used < sizeof list->blob;
    if (list->is_named)
        memcpy(list->blob, list->text, list->used + 1);
}

static int end_blob(struct list *list)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    if (!list->is_named || !list->is_empty || !list->ours ||
        !bw_azure_election_of(list->blob, election))
        return 0;
    return bw_names_add(list->names, election, strlen(election));
}

static int end_element(struct list *list)
{
    int error = 0;
    if (list->depth == 2 && is_called(list, 1, "NextMarker")) {
        error = list->too_long ? BW_EMALFORMED : 0;
        memcpy(list->marker, list->text, list->used + 1);
    } else if (list->depth == 4 && is_in_blob(list) && is_called(list, 3, "Name")) {
        take_name(list);
    } else if (list->depth == 5 && is_in_blob(list) && is_called(list, 3, "Properties") &&
               is_called(list, 4, "Content-Length")) {
        list->is_empty = strcmp(list->text, "0") == 0;
    } else if (list->depth == 5 && is_in_blob(list) && is_called(list, 3, "Metadata")) {
        list->ours &= is_called(list, 4, "bellwether");
    } else if (list->depth == 3 && is_in_blob(list)) {
        error = end_blob(list);
    }
    list->used = 0;
    list->text[0] = '\0';
    list->ended = --list->depth == 0;
    return error;
}

static int close_element(struct list *list)
{
    if (list->depth == 0 || list->path[list->depth - 1].length != list->xml.length ||
        memcmp(list->path[list->depth - 1].name, list->xml.bytes, list->xml.length) != 0)
        return BW_EMALFORMED;
    return end_element(list);
}

static int take_piece(struct list *list, enum piece piece)
{
    int error = BW_EMALFORMED;
    switch (piece) {
    case OPEN:
        return open_element(list);
    case EMPTY:
        error = open_element(list);
        return error ? error : end_element(list);
    case CLOSE:
        return close_element(list);
    case TEXT:
        return add_text(list);
    case END:
    case MALFORMED:
        break;
    }
    return error;
}

int bw_azure_list_parse(const char *body, size_t length, struct bw_names *names,
                        char marker[AZURE_MARKER_MAX + 1])
{
    struct list list = {
        .xml = {.at = body, .end = body + length}, .names = names, .marker = marker};
    enum piece piece;
    marker[0] = '\0';
    while ((piece = next_piece(&list.xml)) != END) {
        int error = take_piece(&list, piece);
        if (error)
            return error;
    }
    return list.ended && list.is_root ? 0 : BW_EMALFORMED;
}

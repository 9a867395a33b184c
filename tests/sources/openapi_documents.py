"""OpenAPI documents of our own, in the shapes that public ones have."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

SERVERS = [{"url": "https://api.example/v1"}]
DONE: Json = {"200": {"description": "Done."}}


def operation(operation_id: str, summary: str, **fields: Any) -> Json:
    return {"operationId": operation_id, "summary": summary, "responses": DONE, **fields}


def parameter(name: str, place: str, schema: Json, **fields: Any) -> Json:
    if place == "path":
        fields = {"required": True, **fields}
    return {"name": name, "in": place, "schema": schema, **fields}


def body(media_type: str, schema: Json, *, required: bool | None = True, **fields: Any) -> Json:
    said = {} if required is None else {"required": required}
    return {**said, "content": {media_type: {"schema": schema, **fields}}}


def document(paths: Json, *, version: str = "3.0.3", **fields: Any) -> Json:
    return {
        "openapi": version,
        "info": {"title": "A shelter", "version": "1.0"},
        "servers": SERVERS,
        "paths": paths,
        **fields,
    }


TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer", "format": "int64"}

# A shelter for animals, as 3.0 is mostly written: shared parameters, references, nullable.
SHELTER = document(
    {
        "/animals": {
            "get": operation(
                "listAnimals",
                "List the animals",
                description="Those that wait for a home, a page at a time.",
                tags=["animals"],
                parameters=[
                    {"$ref": "#/components/parameters/limit"},
                    parameter("kind", "query", {"type": "array", "items": TEXT}),
                    parameter("X-Trace", "header", TEXT),
                ],
            ),
            "post": operation(
                "addAnimal",
                "Take in an animal",
                tags=["animals", "intake"],
                requestBody={"$ref": "#/components/requestBodies/animal"},
            ),
        },
        "/animals/{animalId}": {
            "parameters": [parameter("animalId", "path", TEXT, description="Not a number yet.")],
            "get": operation(
                "getAnimal",
                "Get an animal",
                parameters=[parameter("animalId", "path", WHOLE, description="Its number.")],
            ),
            "put": {
                "summary": "Change an animal",
                "responses": DONE,
                "requestBody": {"$ref": "#/components/requestBodies/animal"},
            },
            "delete": operation(
                "releaseAnimal",
                "Let an animal go",
                parameters=[parameter("Idempotency-Key", "header", TEXT, required=True)],
            ),
            "head": operation("hasAnimal", "Ask whether there is such an animal"),
        },
        "/photos/{animalId}": {
            "post": operation(
                "addPhoto",
                "Add a photo",
                parameters=[parameter("animalId", "path", WHOLE)],
                requestBody=body("image/png", {"type": "string", "format": "binary"}),
            )
        },
    },
    components={
        "parameters": {
            "limit": parameter(
                "limit",
                "query",
                {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 100},
                description="How many at most.",
                example=10,
            )
        },
        "requestBodies": {
            "animal": body("application/json", {"$ref": "#/components/schemas/Animal"})
        },
        "schemas": {
            "Animal": {
                "type": "object",
                "required": ["id", "name", "kind"],
                "properties": {
                    "id": {**WHOLE, "readOnly": True},
                    "name": {**TEXT, "example": "Minka"},
                    "kind": {"type": "string", "enum": ["cat", "dog", "bird"]},
                    "chip": {**TEXT, "nullable": True, "description": "Of its microchip."},
                    "weight": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                    "mother": {"$ref": "#/components/schemas/Animal"},
                },
            }
        },
    },
)

# Messages, sent as forms: plain fields, lists, nested objects, and a part with several types.
MESSAGES = document(
    {
        "/accounts/{account}/messages": {
            "post": operation(
                "sendMessage",
                "Send a message",
                parameters=[parameter("account", "path", TEXT)],
                requestBody=body(
                    "application/x-www-form-urlencoded",
                    {
                        "type": "object",
                        "required": ["To", "Body"],
                        "properties": {
                            "To": {"type": "string", "pattern": r"^\+[0-9]+$"},
                            "Body": {**TEXT, "maxLength": 1600},
                            "MediaUrl": {"type": "array", "items": TEXT},
                            "MaxPrice": {"type": "number"},
                            "Urgent": {"type": "boolean"},
                        },
                    },
                    required=None,
                ),
            )
        },
        "/charges": {
            "post": operation(
                "createCharge",
                "Charge a card",
                requestBody=body(
                    "application/x-www-form-urlencoded",
                    {
                        "type": "object",
                        "required": ["amount"],
                        "properties": {
                            "amount": WHOLE,
                            "metadata": {"type": "object", "additionalProperties": TEXT},
                            "items": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "properties": {"price": TEXT, "quantity": WHOLE},
                                },
                            },
                            "address": {
                                "type": "object",
                                "properties": {"city": TEXT, "zip": TEXT},
                            },
                            "expand": {"type": "array", "items": TEXT},
                        },
                    },
                    encoding={
                        "metadata": {"style": "deepObject", "explode": True},
                        "items": {"style": "deepObject", "explode": True},
                        "expand": {"style": "form", "explode": False},
                    },
                ),
            )
        },
        "/notes": {
            "post": operation(
                "addNote",
                "Add a note",
                requestBody=body(
                    "multipart/form-data",
                    {
                        "type": "object",
                        "required": ["title"],
                        "properties": {
                            "title": TEXT,
                            "labels": {"type": "array", "items": TEXT},
                            "size": {"type": "object", "properties": {"width": WHOLE}},
                            "scan": {"type": "string", "format": "binary"},
                        },
                    },
                ),
            )
        },
        "/log": {
            "post": operation("log", "Write a line", requestBody=body("text/plain", TEXT)),
        },
    }
)

# A bank: every kind of credential, alternatives, combinations, one operation without any.
BANK = document(
    {
        "/rates": {"get": operation("rates", "Rates of exchange", security=[])},
        "/balance": {"get": operation("balance", "The balance of the account")},
        "/branches": {
            "get": operation("branches", "Branches nearby", security=[{}, {"apiKey": []}])
        },
        "/report": {"get": operation("report", "A report", security=[{"queryKey": []}])},
        "/session": {"get": operation("session", "The session", security=[{"cookieKey": []}])},
        "/login": {"post": operation("login", "Log in", security=[{"password": []}])},
        "/transfers": {
            "post": operation(
                "transfer",
                "Transfer money",
                security=[{"token": ["write"], "apiKey": []}, {"password": []}],
                requestBody=body(
                    "application/json",
                    {"type": "object", "required": ["amount"], "properties": {"amount": WHOLE}},
                ),
            )
        },
        "/vault": {"get": operation("vault", "Open the vault", security=[{"certificate": []}])},
        "/sign": {"post": operation("sign", "Sign a paper", security=[{"login": []}])},
    },
    security=[{"token": ["read"]}, {"apiKey": []}],
    components={
        "securitySchemes": {
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            "queryKey": {"type": "apiKey", "in": "query", "name": "key"},
            "cookieKey": {"type": "apiKey", "in": "cookie", "name": "sid"},
            "password": {"type": "http", "scheme": "basic"},
            "login": {"type": "http", "scheme": "Bearer"},
            "certificate": {"type": "mutualTLS"},
            "token": {
                "type": "oauth2",
                "flows": {
                    "clientCredentials": {
                        "tokenUrl": "https://api.example/token",
                        "scopes": {"read": "Look", "write": "Change"},
                    }
                },
            },
        }
    },
)

# A family tree in 3.1: circles of references, kinds that are one another, null as a type.
TREE = document(
    {
        "/people": {
            "post": operation(
                "addPerson",
                "Add a person",
                requestBody=body("application/json", {"$ref": "#/components/schemas/Person"}),
            )
        },
        "/pets": {
            "post": operation(
                "addPet",
                "Add a pet",
                requestBody=body("application/json", {"$ref": "#/components/schemas/Pet"}),
            )
        },
        "/cats/{name}": {
            "put": operation(
                "putCat",
                "Replace a cat",
                parameters=[parameter("name", "path", TEXT)],
                requestBody=body("application/json", {"$ref": "#/components/schemas/Cat"}),
            )
        },
        "/numbers": {
            "put": operation(
                "putNumbers",
                "Replace the numbers",
                requestBody=body(
                    "application/merge-patch+json",
                    {
                        "type": "array",
                        "prefixItems": [{"type": "integer", "exclusiveMinimum": 0}],
                        "items": {"type": ["number", "null"]},
                    },
                ),
            )
        },
    },
    version="3.1.0",
    components={
        "schemas": {
            "Person": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": TEXT,
                    "born": {"type": ["string", "null"], "examples": ["1815-12-10"]},
                    "partner": {"$ref": "#/components/schemas/Person"},
                    "children": {
                        "type": "array",
                        "items": {"$ref": "#/components/schemas/Child"},
                    },
                },
                "additionalProperties": False,
            },
            "Child": {
                "allOf": [
                    {"$ref": "#/components/schemas/Person"},
                ],
                "description": "A person who is still small.",
            },
            "Pet": {
                "type": "object",
                "required": ["name", "sound"],
                "properties": {"name": TEXT, "sound": {"const": "none"}, "of": {"type": "null"}},
                "oneOf": [
                    {"$ref": "#/components/schemas/Cat"},
                    {"type": "object", "required": ["wings"], "properties": {"wings": WHOLE}},
                ],
                "discriminator": {"propertyName": "sound"},
            },
            "Cat": {
                "allOf": [
                    {"$ref": "#/components/schemas/Pet"},
                    {
                        "type": "object",
                        "required": ["lives"],
                        "properties": {"lives": {**WHOLE, "maximum": 9}},
                    },
                ]
            },
        }
    },
)

# A search with everything that a query, a path, a header and a cookie can hold.
POINT: Json = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}
NAMES: Json = {"type": "array", "items": TEXT}
NUMBERS: Json = {"type": "array", "items": WHOLE}
FILTER: Json = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "tags": NAMES,
        "price": {"type": "object", "properties": {"gte": {"type": "number"}}},
    },
}
SEARCH = document(
    {
        "/plain/{id}/of/{list}/{point}": {
            "get": operation(
                "plain",
                "All the usual styles",
                parameters=[
                    parameter("id", "path", TEXT),
                    parameter("list", "path", NAMES),
                    parameter("point", "path", POINT, explode=True),
                    parameter("id", "query", TEXT),
                    parameter("many", "query", NAMES),
                    parameter("few", "query", NAMES, explode=False),
                    parameter("spaced", "query", NAMES, style="spaceDelimited", explode=False),
                    parameter("piped", "query", NUMBERS, style="pipeDelimited", explode=False),
                    parameter("corner", "query", POINT),
                    parameter("filter", "query", FILTER, style="deepObject", explode=True),
                    parameter("flag", "query", {"type": "boolean"}),
                    {
                        "name": "shape",
                        "in": "query",
                        "content": {"application/json": {"schema": FILTER}},
                    },
                    parameter("X-Names", "header", NAMES),
                    parameter("X-Point", "header", POINT, explode=True),
                    parameter("taste", "cookie", TEXT),
                ],
            )
        },
        "/marked/{a}/{b}/{c}/{d}/{e}/{f}": {
            "get": operation(
                "marked",
                "The unusual styles",
                parameters=[
                    parameter("a", "path", TEXT, style="label"),
                    parameter("b", "path", NAMES, style="label", explode=True),
                    parameter("c", "path", POINT, style="label"),
                    parameter("d", "path", TEXT, style="matrix"),
                    parameter("e", "path", NAMES, style="matrix", explode=True),
                    parameter("f", "path", POINT, style="matrix", explode=False),
                    parameter("point", "query", POINT, explode=False),
                ],
            )
        },
    },
    version="3.1.0",
)

ALL = {
    "shelter": SHELTER,
    "messages": MESSAGES,
    "bank": BANK,
    "tree": TREE,
    "search": SEARCH,
}

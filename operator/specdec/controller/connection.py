"""Requests to the API server: the client library's configuration, credentials and TLS; bytes in, aiohttp's answer out.

The library's own calls walk through every body, header and query to make them plain, and write bodies as JSON
themselves: what goes through here is plain and written already.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
from kubernetes.aio import client


class Connection:
    """Connections to one API server, as a `kubernetes.aio.client.Configuration` describes it."""

    def __init__(self, api: client.ApiClient, connect_seconds: float | None = None) -> None:
        """Take the library's client; an attempt to connect is given up after `connect_seconds`, TLS included."""
        self._api = api
        self._connect_seconds = connect_seconds
        self._opened: aiohttp.ClientSession | None = None

    async def send(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        """Send a request; returns the answer, whose text is still to be read, or the answer to be closed."""
        sent = dict(headers)
        await self._api.update_params_for_auth(sent, [], ["BearerToken"], path, method, None)
        configuration = self._api.configuration
        return await self._session().request(
            method,
            f"{configuration.host}{path}",
            params=query,
            headers=sent,
            data=body,
            server_hostname=configuration.tls_server_name or None,
            proxy_headers=configuration.proxy_headers or None,
        )

    def _session(self) -> aiohttp.ClientSession:
        """Open the session at the first request: it belongs to the loop that runs then."""
        if self._opened is None:
            configuration = self._api.configuration
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=configuration.connection_pool_maxsize, ssl=self._api.rest_client.ssl_context
                ),
                proxy=configuration.proxy or None,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_seconds),
                cookie_jar=aiohttp.DummyCookieJar(),
                **{"trust_env": True, **(configuration.client_session_kwargs or {})},
            )
        return self._opened

    async def close(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            await self._opened.close()
        await self._api.close()

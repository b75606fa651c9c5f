import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// HTTP over URLSession, without cookies and caches.
final class HTTPSend: Sendable {
    private let session: URLSession

    init() {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        session = URLSession(configuration: configuration, delegate: NoRedirects(), delegateQueue: nil)
    }

    /// - Parameter body: nil for a GET.
    func send(_ url: String, headers: [String: String], body: String?, timeoutMs: Int) async -> Answer {
        guard let url = URL(string: url) else { return .unsent }
        var request = URLRequest(url: url)
        request.timeoutInterval = Double(timeoutMs) / 1_000
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        if let body {
            request.httpMethod = "POST"
            request.httpBody = Data(body.utf8)
        }
        let sending = Task { [session, request] in try await session.data(for: request) }
        // The request's own time-out starts again with each byte.
        let limit = Task {
            try await Task.sleep(nanoseconds: UInt64(timeoutMs) * 1_000_000)
            sending.cancel()
        }
        defer { limit.cancel() }
        do {
            let (data, response) = try await sending.value
            guard let http = response as? HTTPURLResponse else { return .lost }
            var headers: [String: String] = [:]
            for (name, value) in http.allHeaderFields { headers["\(name)".lowercased()] = "\(value)" }
            let json = data.count > Limits.replyBytesMax ? nil : JSON(text: String(decoding: data, as: UTF8.self))
            return .reply(Reply(status: http.statusCode, headers: headers, body: json))
        } catch {
            return isUnsent(error) ? .unsent : .lost
        }
    }
}

/// A redirected POST would become a GET.
private final class NoRedirects: NSObject, URLSessionTaskDelegate {
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse, newRequest request: URLRequest,
        completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(task.originalRequest?.httpMethod == "POST" ? nil : request)
    }
}

/// Whether the request certainly did not reach the server.
private func isUnsent(_ error: Error) -> Bool {
    switch (error as? URLError)?.code {
    case .badURL, .unsupportedURL, .cannotFindHost, .cannotConnectToHost, .dnsLookupFailed, .notConnectedToInternet,
        .dataNotAllowed, .internationalRoamingOff, .callIsActive, .secureConnectionFailed, .serverCertificateUntrusted,
        .serverCertificateHasBadDate, .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid,
        .appTransportSecurityRequiresSecureConnection:
        true
    default: false
    }
}
